package helper

import (
	"bytes"
	"choria-provision/config"
	"cmp"
	"context"
	"encoding/json"
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

	// gracePeriod is what a child gets between the polite signal and the hard
	// one, and what its pipes get to run dry once it is gone.
	gracePeriod = time.Second
)

// process is one run of a program: args, env, input and grace are given, stdout
// and stderr are what it wrote.
type process struct {
	args  []string
	env   []string
	input []byte
	grace time.Duration         // 0: gracePeriod
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
func (c *process) run(parent context.Context) error {
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
		pipes.expire(gracePeriod)
		return err
	}))
	if len(c.stdout) > answerLimit {
		return errTooLong
	}
	return err
}

func (c *process) command(ctx context.Context, pipes *processPipes) *exec.Cmd {
	cmd := exec.CommandContext(ctx, c.args[0], c.args[1:]...) //nolint:gosec // the operator's own command
	cmd.Env = helperEnv(os.Environ(), c.env)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = pipes.in.theirs, pipes.out.theirs, pipes.err.theirs
	cmd.SysProcAttr = ownGroup()
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = cmp.Or(c.grace, gracePeriod)
	return cmd
}

// exitPollDelay is how long the end of a child is looked for in its stdout alone.
// Most have ended by then, which spares waking one more thread for each.
const exitPollDelay = 50 * time.Millisecond

// copy moves bytes in all directions at once, so that no pipe can block
// another, and returns what end says: that waits for the child.
func (c *process) copy(p *processPipes, input []byte, cancel context.CancelCauseFunc, end func() error) error {
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
		var last tailBuffer
		last.readAll(p.err.ours)
		c.stderr = last.bytes
	})
	late := time.AfterFunc(exitPollDelay, func() { _ = end() })
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

// tailBuffer keeps the last stderrLimit bytes written to it.
type tailBuffer struct{ bytes []byte }

// readAll keeps the end of all there is to read. io.Copy would take 32 KiB for
// what is most often nothing; here only who says much gets as much.
func (t *tailBuffer) readAll(from io.Reader) {
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

func (t *tailBuffer) Write(p []byte) (int, error) {
	t.bytes = append(t.bytes, p...)
	if over := len(t.bytes) - stderrLimit; over > 0 {
		t.bytes = append(t.bytes[:0], t.bytes[over:]...)
	}
	return len(p), nil
}

// processPipes are the three pipes between us and a child.
type processPipes struct{ in, out, err pipe }

// pipe has the end that we read or write and the end that a child inherits.
// Ours can be waited for without a thread, theirs blocks as programs expect it.
type pipe struct{ ours, theirs *os.File }

func openPipes() (*processPipes, error) {
	p := &processPipes{}
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
func (p *processPipes) fill(input []byte) (rest []byte) {
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
func (p *processPipes) closeTheirs() {
	for _, end := range []pipe{p.in, p.out, p.err} {
		_ = end.theirs.Close()
	}
}

// expire bounds what is left to copy: a process that left the group may hold
// the other ends for ever.
func (p *processPipes) expire(after time.Duration) {
	deadline := time.Now().Add(after)
	for _, end := range []pipe{p.in, p.out, p.err} {
		_ = end.ours.SetDeadline(deadline)
	}
}

func (p *processPipes) close() {
	for _, end := range []pipe{p.in, p.out, p.err} {
		_ = end.ours.Close()
		_ = end.theirs.Close()
	}
}

// Exec runs the helper as a child process, one for each answer.
type Exec struct {
	Command config.Command
	Timeout time.Duration // 0: the default of helper_timeout, 10 s
	Env     []string      // NAME=value, added to our own environment

	grace time.Duration         // between the polite signal and the hard one; 0: gracePeriod
	wait  func(context.Context) // between two attempts to start a busy program; nil: a moment
}

// Answer starts the helper, gives it the input as JSON on stdin and reads its
// answer from stdout. Whatever the helper leaves running in its process group
// is ended with it. Its exit code wins over a good-looking answer; a cancelled
// ctx ends it and gives an error that unwraps to ErrFailed and to ctx's cause.
func (h Exec) Answer(ctx context.Context, in Input) (Answer, error) {
	if len(h.Command.Args) == 0 {
		return Answer{}, fmt.Errorf("%w: none is configured; set helper", ErrFailed)
	}
	input, err := json.Marshal(in)
	if err != nil {
		return Answer{}, fmt.Errorf("%w: encoding its input: %w", ErrFailed, err)
	}
	child := process{args: h.Command.Args, env: h.Env, input: input, grace: h.grace, wait: h.wait}
	timeout := h.Timeout
	if timeout <= 0 {
		timeout = config.Default().HelperTimeout.Duration
	}
	limited, cancel := context.WithTimeoutCause(ctx, timeout, errTooSlow)
	defer cancel()
	if err := explainEnd(child.run(limited), child, timeout); err != nil {
		return Answer{}, err
	}
	answer, err := parseAnswer(child.stdout)
	if err != nil {
		return Answer{}, fmt.Errorf("%w%s", err, child.stderrText())
	}
	return answer, nil
}

// The ways a child process ends early, beside those of the caller's context.
var (
	errTooSlow = errors.New("too slow")
	errTooLong = errors.New("too long an answer")
)

// explainEnd turns the end of a child into the cause an operator knows.
func explainEnd(err error, c process, timeout time.Duration) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errTooSlow):
		return fmt.Errorf("%w: %s had not answered after %s (helper_timeout)%s", ErrTimeout, c.args[0], timeout, c.stderrText())
	case errors.Is(err, errTooLong):
		return fmt.Errorf("%w: it is longer than %d MiB%s", ErrAnswer, answerLimit>>20, c.stderrText())
	case errors.Is(err, ErrAnswer):
		return fmt.Errorf("%w%s", err, c.stderrText())
	default:
		return fmt.Errorf("%w: %s: %w%s", ErrFailed, c.args[0], err, c.stderrText())
	}
}

// stderrText quotes the end of what the child wrote to stderr.
func (c process) stderrText() string {
	text := bytes.TrimSpace(c.stderr)
	if len(text) == 0 {
		return ""
	}
	return fmt.Sprintf("; it said: %s", bytes.ToValidUTF8(text, []byte("?")))
}
