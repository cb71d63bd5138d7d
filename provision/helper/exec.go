package helper

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"choria-provision/config"
)

const (
	answerLimit = 8 << 20 // bytes of stdout that are read
	stderrLimit = 4 << 10 // bytes of stderr that are kept, the last ones

	// gracePeriod is the time between SIGTERM and SIGKILL, and the time for which
	// pipes are drained after a process has exited.
	gracePeriod = time.Second
)

// Exec runs the helper as a child process, one per answer.
type Exec struct {
	Command config.Command
	Timeout time.Duration // 0: the default of helper_timeout, 10 s
	Env     []string      // NAME=value, added to our own environment

	grace time.Duration         // 0: gracePeriod
	wait  func(context.Context) // between two attempts to start a busy program; nil: a moment
}

// Answer starts the helper, gives it the input as JSON on stdin and reads its
// answer from stdout. It also ends what the helper leaves running in its process
// group. A failing exit code wins over a valid answer. A cancelled ctx ends the
// helper; the error then unwraps to ErrFailed and to ctx's cause.
func (h Exec) Answer(ctx context.Context, in Input) (Answer, error) {
	if len(h.Command.Args) == 0 {
		return Answer{}, fmt.Errorf("%w: none is configured; set helper", ErrFailed)
	}
	input, err := json.Marshal(in)
	if err != nil {
		return Answer{}, fmt.Errorf("%w: encoding its input: %w", ErrFailed, err)
	}
	p := &process{args: h.Command.Args, env: h.Env, input: input, grace: h.grace, wait: h.wait}
	limited, cancel := context.WithTimeoutCause(ctx, h.timeout(), errTooSlow)
	defer cancel()
	if err := explainEnd(p.run(limited), p, h.timeout()); err != nil {
		return Answer{}, err
	}
	answer, err := parseAnswer(p.stdout.Bytes())
	if err != nil {
		return Answer{}, fmt.Errorf("%w%s", err, p.stderrText())
	}
	return answer, nil
}

func (h Exec) timeout() time.Duration {
	if h.Timeout > 0 {
		return h.Timeout
	}
	return config.Default().HelperTimeout.Duration
}

// The causes that end a process early, besides those of the caller's context.
var (
	errTooSlow = errors.New("too slow")
	errTooLong = errors.New("too long an answer")
)

// explainEnd converts the error of a process into one of the package's causes.
func explainEnd(err error, p *process, timeout time.Duration) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errTooSlow):
		return fmt.Errorf("%w: %s had not answered after %s (helper_timeout)%s", ErrTimeout, p.args[0], timeout, p.stderrText())
	case errors.Is(err, errTooLong):
		return fmt.Errorf("%w: it is longer than %d MiB%s", ErrAnswer, answerLimit>>20, p.stderrText())
	case errors.Is(err, ErrAnswer):
		return fmt.Errorf("%w%s", err, p.stderrText())
	default:
		return fmt.Errorf("%w: %s: %w%s", ErrFailed, p.args[0], err, p.stderrText())
	}
}

// process is one execution of a program. stdout and stderr hold its output after
// run has returned.
type process struct {
	args  []string
	env   []string
	input []byte
	grace time.Duration         // 0: gracePeriod
	wait  func(context.Context) // as for startProgram

	stdout answerBuffer
	stderr tailBuffer
}

// run starts the program in a process group of its own and returns after the
// program and its group have ended: nil after exit status 0, the cause of ctx if
// that ended it, errTooLong if it wrote too much.
func (p *process) run(parent context.Context) error {
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	p.stdout.overflow = func() { cancel(errTooLong) }

	// Pdeathsig is bound to the thread that started the child, so this goroutine
	// keeps its thread until the child has exited.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	cmd, err := startProgram(ctx, p.wait, func() *exec.Cmd { return p.command(ctx) })
	if err != nil {
		return cmp.Or(context.Cause(ctx), err)
	}
	err, cause := p.await(ctx, cmd)
	switch {
	case p.stdout.tooLong():
		return errTooLong
	case err == nil || errors.Is(err, exec.ErrWaitDelay): // a process outside of the group holds the pipes
		return nil
	}
	return cmp.Or(cause, err)
}

// await returns how the program ended, after its group has ended and its pipes
// are drained. cause is that of ctx if it was over before the program exited.
func (p *process) await(ctx context.Context, cmd *exec.Cmd) (err, cause error) {
	killGroup := func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	if !awaitExit(cmd.Process.Pid) {
		err = cmd.Wait()
		cause = context.Cause(ctx)
		killGroup()
		return err, cause
	}
	// What the program left in its group may hold the pipes, for whose end Wait
	// waits. The number of the group is ours until Wait has reaped the program.
	cause = context.Cause(ctx)
	killGroup()
	return cmd.Wait(), cause
}

// command returns the program with its pipes; ctx ends its process group with
// SIGTERM, and after the grace period os/exec kills it and closes the pipes.
func (p *process) command(ctx context.Context) *exec.Cmd {
	cmd := exec.CommandContext(ctx, p.args[0], p.args[1:]...) //nolint:gosec // the operator's own command
	cmd.Env = helperEnv(os.Environ(), p.env)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(p.input), &p.stdout, &p.stderr
	cmd.SysProcAttr = ownGroup()
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = cmp.Or(p.grace, gracePeriod)
	return cmd
}

// stderrText quotes the end of what the process wrote to stderr.
func (p *process) stderrText() string { return quoteStderr(p.stderr.bytes) }

func quoteStderr(text []byte) string {
	text = bytes.TrimSpace(text)
	if len(text) == 0 {
		return ""
	}
	return fmt.Sprintf("; it said: %s", bytes.ToValidUTF8(text, []byte("?")))
}

// answerBuffer keeps stdout up to answerLimit and calls overflow at more.
type answerBuffer struct {
	bytes.Buffer
	overflow func()
}

func (b *answerBuffer) tooLong() bool { return b.Len() > answerLimit }

// ReadFrom implements io.ReaderFrom, which io.Copy prefers to a buffer of its own.
func (b *answerBuffer) ReadFrom(from io.Reader) (int64, error) {
	b.Grow(4 << 10) // enough for most answers
	n, err := b.Buffer.ReadFrom(io.LimitReader(from, answerLimit+1))
	if b.tooLong() {
		b.overflow()
		err = errTooLong
	}
	return n, err
}

// tailBuffer keeps the last stderrLimit bytes written to it.
type tailBuffer struct{ bytes []byte }

// ReadFrom implements io.ReaderFrom: io.Copy would allocate 32 KiB for what is
// usually nothing, so the chunk grows only for a process that writes much.
func (t *tailBuffer) ReadFrom(from io.Reader) (total int64, err error) {
	const most = 32 << 10
	chunk := make([]byte, 512)
	for {
		n, err := from.Read(chunk)
		_, _ = t.Write(chunk[:n])
		total += int64(n)
		switch {
		case errors.Is(err, io.EOF):
			return total, nil
		case err != nil:
			return total, err
		case n == len(chunk) && n < most:
			chunk = make([]byte, most)
		}
	}
}

// Write implements io.Writer.
func (t *tailBuffer) Write(p []byte) (int, error) {
	t.bytes = append(t.bytes, p...)
	if over := len(t.bytes) - stderrLimit; over > 0 {
		t.bytes = append(t.bytes[:0], t.bytes[over:]...)
	}
	return len(p), nil
}
