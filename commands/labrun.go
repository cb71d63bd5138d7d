package commands

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/term"

	"choria-provision/internal/lab"
)

// RunIfLabChild runs as a server or the helper of `provision lab`, which are this
// program again, and does not return then. Call it first.
func RunIfLabChild() { lab.RunIfChild() }

// commandEnded is a command run for the user that did not end with 0; its exit
// code becomes ours.
type commandEnded struct {
	name string
	code int
}

func (c commandEnded) Error() string {
	return fmt.Sprintf("%s ended with exit code %d", c.name, c.code)
}

// runOnHosts runs the command once, or as each of the lab's hosts at the same
// time. What a host prints has its name before each line.
func (a *app) runOnHosts(stop context.Context, l *lab.Lab, o labOptions) error {
	if o.Hosts == 0 {
		return a.runInLab(stop, l, o.command, labHost{in: a.In, out: a.result.Writer, err: a.Err, env: l.Env()})
	}
	var printing sync.Mutex
	ended := make([]error, o.Hosts)
	var hosts sync.WaitGroup
	for i := range o.Hosts {
		hosts.Go(func() {
			out := &prefixed{to: a.result.Writer, prefix: lab.HostName(i) + ": ", printing: &printing}
			err := &prefixed{to: a.Err, prefix: lab.HostName(i) + ": ", printing: &printing}
			ended[i] = a.runInLab(stop, l, o.command, labHost{out: out, err: err, env: append(l.Env(), l.HostExports(i)...)})
			out.flush()
			err.flush()
		})
	}
	hosts.Wait()
	return errors.Join(ended...)
}

// labHost is what differs between the hosts that run a command.
type labHost struct {
	in       io.Reader
	out, err io.Writer
	env      []string
}

// prefixed writes whole lines with a prefix.
type prefixed struct {
	to       io.Writer
	prefix   string
	printing *sync.Mutex // of all that write to the same place
	rest     []byte      // a line that has not ended
}

func (p *prefixed) Write(text []byte) (int, error) {
	p.rest = append(p.rest, text...)
	end := bytes.LastIndexByte(p.rest, '\n') + 1
	p.print(p.rest[:end])
	p.rest = append([]byte(nil), p.rest[end:]...)
	return len(text), nil
}

func (p *prefixed) flush() {
	if len(p.rest) > 0 {
		p.print(append(p.rest, '\n'))
	}
}

func (p *prefixed) print(lines []byte) {
	p.printing.Lock()
	defer p.printing.Unlock()
	for line := range bytes.Lines(lines) {
		_, _ = fmt.Fprintf(p.to, "%s%s", p.prefix, line)
	}
}

// runInLab runs a command with the lab's environment and passes the first signal
// on to it.
func (a *app) runInLab(stop context.Context, l *lab.Lab, command []string, as labHost) error {
	path, err := labPath(l, command[0])
	if err != nil {
		return err
	}
	cmd := exec.Command(path, command[1:]...)
	cmd.Args[0] = command[0]
	cmd.Env = as.env
	cmd.Stdin, cmd.Stdout, cmd.Stderr = as.in, as.out, as.err
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
