package helper

import (
	"bufio"
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

	"golang.org/x/sys/unix"
)

var (
	errUnasked     = errors.New("it wrote an answer before it had read the question")
	errPartialLine = errors.New("it ended in the middle of an answer")
	errNoAnswer    = errors.New("it ended without an answer")
)

// worker is one persistent helper process.
type worker struct {
	pid    int
	pipes  *processPipes
	from   *bufio.Reader // its stdout, read only while a question is out
	stderr safeTail
	ended  chan struct{} // closed when the process and its group are gone

	asking  sync.Mutex // held while a question is out, and to close the pipes
	endOnce sync.Once
	exit    error // what Wait said; read after ended
}

// startWorker starts the helper in a process group of its own. The goroutine
// that starts it keeps its thread until the helper is gone, since the signal
// that a parent's death sends is tied to that thread.
func startWorker(ctx context.Context, h Exec) (*worker, error) {
	pipes, err := openPipes()
	if err != nil {
		return nil, fmt.Errorf("opening pipes: %w", err)
	}
	t := &worker{pipes: pipes, from: bufio.NewReader(pipes.out.ours), ended: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(t.ended)
		cmd, err := startProgram(ctx, h.wait, func() *exec.Cmd { return workerCommand(h, pipes) })
		if err != nil {
			pipes.close()
			started <- err
			return
		}
		pipes.closeTheirs()
		t.pid = cmd.Process.Pid
		var reading sync.WaitGroup
		reading.Go(func() { _, _ = io.Copy(&t.stderr, pipes.err.ours) })
		started <- nil
		t.exit = cmd.Wait()
		_ = syscall.Kill(-t.pid, syscall.SIGKILL) // what is left of the group
		pipes.expire(gracePeriod)
		reading.Wait()
		t.asking.Lock() // until the end of what it wrote was read
		defer t.asking.Unlock()
		pipes.close()
	}()
	if err := <-started; err != nil {
		<-t.ended
		return nil, err
	}
	return t, nil
}

func workerCommand(h Exec, pipes *processPipes) *exec.Cmd {
	cmd := exec.Command(h.Command.Args[0], h.Command.Args[1:]...) //nolint:gosec // the operator's own command
	cmd.Env = helperEnv(os.Environ(), h.Env)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = pipes.in.theirs, pipes.out.theirs, pipes.err.theirs
	cmd.SysProcAttr = ownGroup()
	return cmd
}

// readLine returns the next line of stdout. Its error is why there is none:
// errTooLong, errPartialLine or errNoAnswer.
func (t *worker) readLine() (line []byte, err error) {
	for {
		part, err := t.from.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > answerLimit:
			return nil, errTooLong
		case errors.Is(err, bufio.ErrBufferFull):
		case err != nil && len(line) > 0:
			return nil, errPartialLine
		case err != nil:
			return nil, errNoAnswer
		default:
			return line, nil
		}
	}
}

// idle reports whether the helper is there and has written nothing since its
// last answer.
func (t *worker) idle() bool {
	select {
	case <-t.ended:
		return false
	default:
		return t.from.Buffered() == 0 && !readable(t.pipes.out.ours)
	}
}

// spoke reports whether there is output that answers nothing.
func (t *worker) spoke() bool { return t.from.Buffered() > 0 || hasBytes(t.pipes.out.ours) }

// reading is what a helper wrote to stdout after it was asked.
type reading struct {
	line []byte
	err  error
}

// exchange writes one question and returns the line that answers it. What stands in
// stdout before the question was written answers nothing. After an error the
// helper is of no more use.
func (t *worker) exchange(ctx context.Context, question []byte) ([]byte, error) {
	t.asking.Lock()
	if !t.idle() {
		t.asking.Unlock()
		return nil, t.unasked(ctx)
	}
	written, answered := make(chan error, 1), make(chan reading, 1)
	go func() {
		_, err := t.pipes.in.ours.Write(question)
		written <- err
	}()
	go func() {
		defer t.asking.Unlock()
		line, err := t.readLine()
		answered <- reading{line, err}
	}()
	select {
	case got := <-answered:
		if got.err != nil {
			return nil, t.exitCause(ctx, got.err)
		}
		if err := t.awaitWritten(ctx, written); err != nil {
			return nil, err
		}
		if t.spoke() {
			return nil, fmt.Errorf("%w: it wrote more than one line", ErrAnswer)
		}
		return got.line, nil // it may have ended meanwhile, which the next question finds out
	case <-ctx.Done():
		t.kill() // and with it what still reads and writes
		<-answered
		return nil, context.Cause(ctx)
	}
}

// unasked explains a helper that is not quiet: it wrote, or it ended.
func (t *worker) unasked(ctx context.Context) error {
	if !t.spoke() {
		return t.exitCause(ctx, errNoAnswer)
	}
	return fmt.Errorf("%w: %w", ErrAnswer, errUnasked)
}

// awaitWritten requires that the question was read before it was answered.
func (t *worker) awaitWritten(ctx context.Context, written <-chan error) error {
	moment := time.NewTimer(gracePeriod)
	defer moment.Stop()
	select {
	case err := <-written:
		switch {
		case err != nil:
			return t.exitCause(ctx, errNoAnswer)
		case hasBytes(t.pipes.in.ours):
			return fmt.Errorf("%w: %w", ErrAnswer, errUnasked)
		}
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-moment.C:
		return fmt.Errorf("%w: %w", ErrAnswer, errUnasked)
	}
}

// exitCause returns why stdout ended: the exit status wins, if there is one
// in time.
func (t *worker) exitCause(ctx context.Context, said error) error {
	if errors.Is(said, errTooLong) {
		return errTooLong
	}
	select {
	case <-t.ended:
		if t.exit != nil {
			return fmt.Errorf("%w: %w", said, t.exit)
		}
		return said
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// readable reports whether a read of a pipe would return at once, with bytes or
// at the end.
func readable(pipe *os.File) (ready bool) {
	ready = true // also when it is closed
	raw, err := pipe.SyscallConn()
	if err != nil {
		return ready
	}
	_ = raw.Control(func(fd uintptr) {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
		for errors.Is(err, unix.EINTR) {
			n, err = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
		}
		ready = n != 0
	})
	return ready
}

func (t *worker) closeInput() { _ = t.pipes.in.ours.Close() }

// kill ends the helper with its group and returns when they are gone.
func (t *worker) kill() {
	t.endOnce.Do(func() {
		select {
		case <-t.ended: // its number may be reused by now
		default:
			_ = syscall.Kill(-t.pid, syscall.SIGKILL)
		}
	})
	<-t.ended
}

// safeTail is a tail that is read while it is written.
type safeTail struct {
	mu  sync.Mutex
	end tailBuffer
}

func (s *safeTail) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.end.Write(p)
}

func (s *safeTail) last() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]byte(nil), s.end.bytes...)
}
