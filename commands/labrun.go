package commands

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/term"

	"choria-provision/internal/lab"
)

// commandEnded is a command run for the user that did not end with 0; its exit
// code becomes ours.
type commandEnded struct {
	name string
	code int
}

func (c commandEnded) Error() string {
	return fmt.Sprintf("%s ended with exit code %d", c.name, c.code)
}

// runInLab runs a command with the lab's environment and our own streams, and
// passes the first signal on to it.
func (a *app) runInLab(stop context.Context, l *lab.Lab, command []string) error {
	path, err := labPath(l, command[0])
	if err != nil {
		return err
	}
	cmd := exec.Command(path, command[1:]...)
	cmd.Args[0] = command[0]
	cmd.Env = l.Env()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = a.In, a.result.Writer, a.Err
	cmd.SysProcAttr = endWithUs()

	runtime.LockOSThread() // the kernel counts the end of the thread that started it as ours
	defer runtime.UnlockOSThread()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("running %s: %w", command[0], err)
	}
	ended := make(chan struct{})
	passed := make(chan struct{})
	go func() {
		defer close(passed)
		select {
		case <-stop.Done():
			a.passSignal(stop, cmd.Process)
		case <-ended:
		}
	}()
	err = cmd.Wait()
	close(ended)
	<-passed
	return commandResult(command[0], err)
}

// labPath finds a command as a shell in the lab would: the lab's own directory
// is first on the PATH.
func labPath(l *lab.Lab, name string) (string, error) {
	if !strings.Contains(name, "/") {
		own := filepath.Join(l.Dir(), "bin", name)
		if _, err := os.Stat(own); err == nil {
			return own, nil
		}
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("finding the command: %w", err)
	}
	return path, nil
}

// passSignal hands the first signal on, except one that the terminal has sent
// to the command as well. SIGHUP has other meanings: the command gets SIGTERM.
func (a *app) passSignal(stop context.Context, p *os.Process) {
	signal := os.Signal(syscall.SIGTERM)
	var first Interrupted
	if errors.As(context.Cause(stop), &first) && first.Signal != syscall.SIGHUP {
		signal = first.Signal
	}
	if in, ok := a.In.(*os.File); ok && signal == syscall.SIGINT && term.IsTerminal(int(in.Fd())) {
		return
	}
	_ = p.Signal(signal) // it may have ended by itself
}

func commandResult(name string, err error) error {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return err
	}
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return commandEnded{name, 128 + int(status.Signal())}
	}
	return commandEnded{name, exit.ExitCode()}
}
