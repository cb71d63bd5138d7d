package helper

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

var errStop = errors.New("the operator said stop")

// cancelled runs a script, cancels it when it has told its process id, and
// returns that and the error. The script gets a file to write the id to before
// its other arguments, and grace to end in.
func cancelled(t *testing.T, grace time.Duration, name string, args ...string) (pid int, err error) {
	t.Helper()
	file, arrived := pidFile(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	started := make(chan int, 1)
	go func() {
		started <- <-arrived
		cancel(errStop)
	}()
	h := script(name, append([]string{file}, args...)...)
	h.grace = grace
	_, err = h.Answer(ctx, Input{})
	return <-started, err
}

func TestCancelledHelperLeavesNothingThoughDeafToSignals(t *testing.T) {
	t.Parallel()
	pid, err := cancelled(t, gracePeriod, "stubborn")
	wantCause(t, err, ErrFailed, "the operator said stop")
	wantCause(t, err, errStop, "inventory database")
	wantGroupGone(t, pid)
}

// A shell runs its trap only once its child has ended, so the polite signal must
// reach both. That it tidied up and left without an error is no answer.
func TestHelperMayTidyUp(t *testing.T) {
	t.Parallel()
	sign := filepath.Join(t.TempDir(), "tidied")
	pid, err := cancelled(t, time.Minute, "tidy", sign)
	wantCause(t, err, errStop, "the operator said stop")
	if _, err := os.Stat(sign); err != nil {
		t.Errorf("got no sign of its tidying up (%v), want one", err)
	}
	wantGroupGone(t, pid)
}

// A helper that starts a daemon hands its pipes on to it: neither may it hold
// us up, nor may it stay.
func TestProcessesLeftByHelperAreEnded(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"orphan", "orphan-stubborn"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file, arrived := pidFile(t)
			got, err := script(name, file).Answer(t.Context(), Input{Inventory: strings.Repeat("i", 1<<20)})
			if err != nil || got.Message != "answered" {
				t.Errorf("got %q and error %v, want its answer", got.Message, err)
			}
			wantGone(t, <-arrived)
		})
	}
}

// One that even left the group holds us up for a moment only, and what happens
// in that moment is too late to be how the helper ended.
func TestHelperHasEndedThoughADaemonHoldsItsPipes(t *testing.T) {
	t.Parallel()
	inGroup, member := pidFile(t)
	inSession, daemon := pidFile(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	got := make(chan error, 1)
	go func() {
		_, err := script("daemon", inGroup, inSession).Answer(ctx, Input{Inventory: strings.Repeat("i", 1<<20)})
		got <- err
	}()
	left := <-daemon
	defer func() { _ = unix.Kill(left, unix.SIGKILL) }()
	wantGone(t, <-member) // it is killed when the helper has ended
	cancel(errStop)
	wantCause(t, <-got, ErrFailed, "exit status 3")
}

func TestStopBeforeTheStartIsTheWholeError(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errStop)
	_, err := script("good").Answer(ctx, Input{})
	wantCause(t, err, errStop, "the operator said stop")
	if errors.Is(err, context.Canceled) {
		t.Errorf("got %q, want no word of contexts", err)
	}
}

// Programs expect pipes that they can wait at; not all can do without.
func TestHelperGetsPipesThatBlock(t *testing.T) {
	t.Parallel()
	persistent := NewPool(script("pipes"))
	defer persistent.Close()
	for name, h := range map[string]Helper{"exec": script("pipes"), "persistent": persistent} {
		got, err := h.Answer(t.Context(), Input{})
		if err != nil {
			t.Fatal(err)
		}
		words := strings.Fields(got.Message)
		if len(words) != 6 {
			t.Fatalf("%s: got %q, want kind and flags of three files", name, got.Message)
		}
		for i := 0; i < len(words); i += 2 {
			flags, err := strconv.ParseInt(words[i+1], 8, 64)
			if !strings.HasPrefix(words[i], "pipe:") || err != nil || flags&unix.O_NONBLOCK != 0 {
				t.Errorf("%s: got %q, want pipes that block", name, got.Message)
			}
		}
	}
}

// pidFile makes a pipe in the file system for a script to write its process id
// to, and returns its path and where the id arrives.
func pidFile(t *testing.T) (path string, pid <-chan int) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "pid")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	arrived := make(chan int, 1)
	go func() {
		defer close(arrived)
		text, err := os.ReadFile(path)
		if pid, bad := strconv.Atoi(strings.TrimSpace(string(text))); err == nil && bad == nil {
			arrived <- pid
		}
	}()
	return path, arrived
}

// wantGone waits for the end of a process that was killed. Who reaps it is not
// ours to say, so a zombie is gone enough.
func wantGone(t *testing.T, pid int) {
	t.Helper()
	if pid == 0 {
		t.Fatal("the script did not tell its process id")
	}
	process, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(process)
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(process), Events: unix.POLLIN}}, 60_000)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil || n == 0:
			t.Errorf("process %d: got it running (%v), want it gone", pid, err)
			return
		default:
			return
		}
	}
}

// wantGroupGone wants no running process in the group that pid leads.
func wantGroupGone(t *testing.T, pid int) {
	t.Helper()
	wantGone(t, pid)
	entries, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		member, err := strconv.Atoi(filepath.Base(entry))
		if err != nil {
			continue
		}
		if group, err := unix.Getpgid(member); err == nil && group == pid {
			wantGone(t, member)
		}
	}
}
