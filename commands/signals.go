package commands

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Interrupted is the cause of a stop context that a signal ended.
type Interrupted struct{ Signal os.Signal }

func (i Interrupted) Error() string { return "interrupted by " + signalName(i.Signal) }

// signalName is what kill(1) and manuals call a signal: SIGTERM, not terminated.
func signalName(s os.Signal) string {
	if number, ok := s.(syscall.Signal); ok {
		if name := unix.SignalName(number); name != "" {
			return name
		}
	}
	return s.String()
}

// echo is for how long a second signal is the first one again. coreutils'
// timeout sends one to the process and one to its group, and a lab hands on to
// its command what the group was sent as well.
const echo = 500 * time.Millisecond

// Signals returns the stop context of a process: the first SIGINT or SIGTERM
// ends it, a later one ends the process at once with 128 and its number. A
// reader of stdout or stderr that has gone is an error of writing there:
// SIGPIPE, which would end a run in the middle of a node, is caught.
func Signals() context.Context {
	stop, first := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	go obey(signals, first, os.Exit)
	return stop
}

func obey(signals <-chan os.Signal, first context.CancelCauseFunc, exit func(code int)) {
	first(Interrupted{<-signals})
	since := time.Now()
	for again := range signals {
		if number, ok := again.(syscall.Signal); ok && time.Since(since) >= echo {
			exit(128 + int(number))
		}
	}
}

// orHangup is stop, ended by SIGHUP as well: a lost terminal ends a run in order.
// Until end is called a SIGHUP does nothing more: a lost terminal sends several.
// Where nohup keeps it from us, that stays.
func orHangup(stop context.Context) (both context.Context, end func()) {
	both, cancel := context.WithCancelCause(stop)
	hangup := make(chan os.Signal, 1)
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(hangup, syscall.SIGHUP)
	}
	go func() {
		select {
		case s := <-hangup:
			cancel(Interrupted{s})
		case <-both.Done():
		}
	}()
	return both, func() {
		signal.Stop(hangup)
		cancel(nil)
	}
}
