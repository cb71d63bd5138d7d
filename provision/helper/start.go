package helper

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"choria-provision/config"
)

const (
	busyTries = 10                     // attempts to start a helper that is being replaced
	busyDelay = 100 * time.Millisecond // between two of them
)

// helperEnv is the environment of a helper: ours, without what systemd gives to
// the one process that it watches, and more on top.
func helperEnv(ours, more []string) []string {
	var env []string
	for _, pair := range ours {
		name, _, _ := strings.Cut(pair, "=")
		if name != "NOTIFY_SOCKET" && !strings.HasPrefix(name, "WATCHDOG_") {
			env = append(env, pair)
		}
	}
	return append(env, more...)
}

// startProgram starts the command that build makes, another one for each
// attempt. A program that is open for writing is being replaced: it is tried
// again for a second. wait is what passes between two attempts, nil for
// busyDelay.
func startProgram(ctx context.Context, wait func(context.Context), build func() *exec.Cmd) (*exec.Cmd, error) {
	if wait == nil {
		wait = sleepBusy
	}
	for try := 1; ; try++ {
		cmd := build()
		err := cmd.Start()
		if !errors.Is(err, syscall.ETXTBSY) || try == busyTries {
			return cmd, explainStart(cmd.Path, err)
		}
		if wait(ctx); ctx.Err() != nil {
			return cmd, cmp.Or(context.Cause(ctx), err)
		}
	}
}

func sleepBusy(ctx context.Context) {
	timer := time.NewTimer(busyDelay)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// explainStart tells a program that does not exist from one that the kernel
// could not run.
func explainStart(path string, err error) error {
	switch {
	case errors.Is(err, syscall.ETXTBSY):
		return fmt.Errorf("it is open for writing: %w", err)
	case errors.Is(err, syscall.ENOENT), errors.Is(err, syscall.ENOEXEC):
		if fault, remedy := config.ProgramFault(path); fault != "" {
			return fmt.Errorf("it %s: %w; %s", fault, err, remedy)
		}
	}
	return err
}
