package provision

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"
)

const (
	answerLimit = 8 << 20 // bytes of stdout that are read
	stderrLimit = 4 << 10 // bytes of stderr that are kept, the last ones

	// childGrace is what a child gets between the polite signal and the hard
	// one, and what its pipes get to run dry once it is gone.
	childGrace = time.Second
)

// child is one run of a program: args, env, input and grace are given, stdout
// and stderr are what it wrote.
type child struct {
	args  []string
	env   []string
	input []byte
	grace time.Duration // 0: childGrace

	stdout []byte
	stderr []byte
}

// run starts the program in a process group of its own and returns when it has
// ended and its group with it: nil after exit status 0, the cause of ctx when
// that ended it, errTooLong after more than answerLimit bytes.
//
// The pipes are ours and not os/exec's. Its Wait waits for copying to end, which
// a background process that inherited the pipes can put off; here the child is
// waited for first, then its group is killed, then the pipes run dry.
func (c *child) run(parent context.Context) error {
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	pipes, err := openPipes()
	if err != nil {
		return fmt.Errorf("opening pipes: %w", err)
	}
	defer pipes.close()

	// The signal that a parent's death sends is tied to the thread that started
	// the child: keep that thread until the child is gone.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	cmd := exec.CommandContext(ctx, c.args[0], c.args[1:]...) //nolint:gosec // the operator's own command
	cmd.Env = append(os.Environ(), c.env...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = pipes.in.read, pipes.out.write, pipes.err.write
	cmd.SysProcAttr = ownGroup()
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = cmp.Or(c.grace, childGrace)
	if err := cmd.Start(); err != nil {
		return errors.Join(context.Cause(ctx), err)
	}
	pipes.closeChildEnds()
	wait := c.copy(pipes, cancel)
	err = cmd.Wait()
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // whoever is left of the group
	pipes.expire(childGrace)
	wait()
	if cause := context.Cause(ctx); cause != nil && err != nil {
		return cause
	}
	if len(c.stdout) > answerLimit {
		return errTooLong
	}
	return err
}

// copy moves bytes in all directions at once, so that no pipe can block
// another, and returns a function that waits for the end of it.
func (c *child) copy(p *childPipes, cancel context.CancelCauseFunc) (wait func()) {
	var copying sync.WaitGroup
	copying.Go(func() {
		_, _ = p.in.write.Write(c.input) // a helper need not read its input
		_ = p.in.write.Close()
	})
	copying.Go(func() {
		c.stdout, _ = io.ReadAll(io.LimitReader(p.out.read, answerLimit+1))
		if len(c.stdout) > answerLimit {
			_ = p.out.read.Close()
			cancel(errTooLong)
		}
	})
	copying.Go(func() {
		var end tail
		_, _ = io.Copy(&end, p.err.read)
		c.stderr = end.bytes
	})
	return copying.Wait
}

// tail keeps the last stderrLimit bytes written to it.
type tail struct{ bytes []byte }

func (t *tail) Write(p []byte) (int, error) {
	t.bytes = append(t.bytes, p...)
	if over := len(t.bytes) - stderrLimit; over > 0 {
		t.bytes = append(t.bytes[:0], t.bytes[over:]...)
	}
	return len(p), nil
}

// childPipes are the three pipes between us and a child.
type childPipes struct{ in, out, err pipe }

type pipe struct{ read, write *os.File }

func openPipes() (*childPipes, error) {
	p := &childPipes{}
	for _, end := range []*pipe{&p.in, &p.out, &p.err} {
		var err error
		if end.read, end.write, err = os.Pipe(); err != nil {
			p.close()
			return nil, err
		}
	}
	return p, nil
}

// closeChildEnds leaves the child's ends to the child alone, so that the end of
// the last process that holds them is the end of the stream.
func (p *childPipes) closeChildEnds() {
	for _, end := range []*os.File{p.in.read, p.out.write, p.err.write} {
		_ = end.Close()
	}
}

// expire bounds what is left to copy: a process that left the group may hold
// the other ends for ever.
func (p *childPipes) expire(after time.Duration) {
	deadline := time.Now().Add(after)
	_ = p.in.write.SetDeadline(deadline)
	_ = p.out.read.SetDeadline(deadline)
	_ = p.err.read.SetDeadline(deadline)
}

func (p *childPipes) close() {
	for _, end := range []pipe{p.in, p.out, p.err} {
		_ = end.read.Close()
		_ = end.write.Close()
	}
}
