package provision

import (
	"bytes"
	"cmp"
	"context"
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
	grace time.Duration         // 0: childGrace
	wait  func(context.Context) // as for startProgram

	stdout []byte
	stderr []byte
}

// run starts the program in a process group of its own and returns when it has
// ended and its group with it: nil after exit status 0, the cause of ctx when
// that ended it, errTooLong after more than answerLimit bytes.
//
// The pipes are ours and not os/exec's. Its Wait waits for copying to end, which
// a background process that inherited the pipes can put off; here the end of the
// child ends its group, and only then the pipes must run dry.
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

	rest := pipes.fill(c.input)
	cmd, err := startProgram(ctx, c.wait, func() *exec.Cmd { return c.command(ctx, pipes) })
	if err != nil {
		return cmp.Or(context.Cause(ctx), err)
	}
	pipes.closeTheirs()
	err = c.copy(pipes, rest, cancel, sync.OnceValue(func() error {
		err := cmd.Wait()
		if cause := context.Cause(ctx); cause != nil && err != nil { // not later: the pipes may outlast ctx
			err = cause
		}
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // whoever is left of the group
		pipes.expire(childGrace)
		return err
	}))
	if len(c.stdout) > answerLimit {
		return errTooLong
	}
	return err
}

func (c *child) command(ctx context.Context, pipes *childPipes) *exec.Cmd {
	cmd := exec.CommandContext(ctx, c.args[0], c.args[1:]...) //nolint:gosec // the operator's own command
	cmd.Env = helperEnv(os.Environ(), c.env)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = pipes.in.theirs, pipes.out.theirs, pipes.err.theirs
	cmd.SysProcAttr = ownGroup()
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = cmp.Or(c.grace, childGrace)
	return cmd
}

// lookAfter is how long the end of a child is looked for in its stdout alone.
// Most have ended by then, which spares waking one more thread for each.
const lookAfter = 50 * time.Millisecond

// copy moves bytes in all directions at once, so that no pipe can block
// another, and returns what end says: that waits for the child.
func (c *child) copy(p *childPipes, input []byte, cancel context.CancelCauseFunc, end func() error) error {
	var beside sync.WaitGroup
	defer beside.Wait()
	if len(input) > 0 {
		beside.Go(func() {
			_, _ = p.in.ours.Write(input) // a helper need not read its input
			_ = p.in.ours.Close()
		})
	} else {
		_ = p.in.ours.Close()
	}
	beside.Go(func() {
		var last tail
		last.readAll(p.err.ours)
		c.stderr = last.bytes
	})
	late := time.AfterFunc(lookAfter, func() { _ = end() })
	defer late.Stop()
	var answer bytes.Buffer
	answer.Grow(4 << 10) // room for most
	_, _ = answer.ReadFrom(io.LimitReader(p.out.ours, answerLimit+1))
	if c.stdout = answer.Bytes(); len(c.stdout) > answerLimit {
		_ = p.out.ours.Close()
		cancel(errTooLong)
	}
	return end()
}

// tail keeps the last stderrLimit bytes written to it.
type tail struct{ bytes []byte }

// readAll keeps the end of all there is to read. io.Copy would take 32 KiB for
// what is most often nothing; here only who says much gets as much.
func (t *tail) readAll(from io.Reader) {
	const most = 32 << 10
	chunk := make([]byte, 512)
	for {
		n, err := from.Read(chunk)
		_, _ = t.Write(chunk[:n])
		if err != nil {
			return
		}
		if n == len(chunk) && n < most {
			chunk = make([]byte, most)
		}
	}
}

func (t *tail) Write(p []byte) (int, error) {
	t.bytes = append(t.bytes, p...)
	if over := len(t.bytes) - stderrLimit; over > 0 {
		t.bytes = append(t.bytes[:0], t.bytes[over:]...)
	}
	return len(p), nil
}

// childPipes are the three pipes between us and a child.
type childPipes struct{ in, out, err pipe }

// pipe has the end that we read or write and the end that a child inherits.
// Ours can be waited for without a thread, theirs blocks as programs expect it.
type pipe struct{ ours, theirs *os.File }

func openPipes() (*childPipes, error) {
	p := &childPipes{}
	for _, open := range []struct {
		pipe  *pipe
		write bool // we write
	}{{&p.in, true}, {&p.out, false}, {&p.err, false}} {
		read, write, err := openPipe(open.write)
		if err != nil {
			p.close()
			return nil, err
		}
		if *open.pipe = (pipe{read, write}); open.write {
			*open.pipe = pipe{write, read}
		}
	}
	return p, nil
}

// fill puts as much of the input into the pipe as it takes without a reader,
// which is most often all of it, and returns the rest.
func (p *childPipes) fill(input []byte) (rest []byte) {
	raw, err := p.in.ours.SyscallConn()
	if err != nil {
		return input
	}
	written := 0
	_ = raw.Write(func(fd uintptr) bool {
		written, _ = syscall.Write(int(fd), input)
		return true
	})
	return input[max(written, 0):]
}

// closeTheirs leaves the child's ends to the child alone, so that the end of
// the last process that holds them is the end of the stream.
func (p *childPipes) closeTheirs() {
	for _, end := range []pipe{p.in, p.out, p.err} {
		_ = end.theirs.Close()
	}
}

// expire bounds what is left to copy: a process that left the group may hold
// the other ends for ever.
func (p *childPipes) expire(after time.Duration) {
	deadline := time.Now().Add(after)
	for _, end := range []pipe{p.in, p.out, p.err} {
		_ = end.ours.SetDeadline(deadline)
	}
}

func (p *childPipes) close() {
	for _, end := range []pipe{p.in, p.out, p.err} {
		_ = end.ours.Close()
		_ = end.theirs.Close()
	}
}
