package commands

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// Interrupted is the cause of a stop context that a signal ended.
type Interrupted struct{ Signal os.Signal }

func (i Interrupted) Error() string { return fmt.Sprintf("interrupted by %s", i.Signal) }

// Signals returns the stop context of a process: the first SIGINT or SIGTERM
// ends it, the second ends the process at once with 128 and its number.
func Signals() context.Context {
	stop, first := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		first(Interrupted{<-signals})
		if second, ok := (<-signals).(syscall.Signal); ok {
			os.Exit(128 + int(second))
		}
	}()
	return stop
}
