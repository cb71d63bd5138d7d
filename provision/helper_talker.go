package provision

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
)

var (
	errUnasked  = errors.New("it wrote an answer before it had read the question")
	errMidWord  = errors.New("it ended in the middle of an answer")
	errNoAnswer = errors.New("it ended without an answer")
)

// talker is one helper process that stays.
type talker struct {
	pid    int
	pipes  *childPipes
	lines  chan []byte // whole lines of stdout; closed when there will be no more
	stderr safeTail
	ended  chan struct{} // closed when the process and its group are gone

	quit     chan struct{} // closed by end
	endOnce  sync.Once
	tornLine error // why lines was closed, nil at a line's end
	exit     error // what Wait said; read after ended
}

// startTalker starts the helper in a process group of its own. The goroutine
// that starts it keeps its thread until the helper is gone, since the signal
// that a parent's death sends is tied to that thread.
func startTalker(ctx context.Context, h ExecHelper) (*talker, error) {
	pipes, err := openPipes()
	if err != nil {
		return nil, fmt.Errorf("opening pipes: %w", err)
	}
	t := &talker{pipes: pipes, lines: make(chan []byte, 1), ended: make(chan struct{}), quit: make(chan struct{})}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(t.ended)
		defer pipes.close()
		cmd, err := startProgram(ctx, h.wait, func() *exec.Cmd { return talkerCommand(h, pipes) })
		if err != nil {
			started <- err
			return
		}
		pipes.closeTheirs()
		t.pid = cmd.Process.Pid
		var reading sync.WaitGroup
		reading.Go(t.readLines)
		reading.Go(func() { _, _ = io.Copy(&t.stderr, pipes.err.ours) })
		started <- nil
		t.exit = cmd.Wait()
		_ = syscall.Kill(-t.pid, syscall.SIGKILL) // whoever is left of the group
		pipes.expire(childGrace)
		reading.Wait()
	}()
	if err := <-started; err != nil {
		<-t.ended
		return nil, err
	}
	return t, nil
}

func talkerCommand(h ExecHelper, pipes *childPipes) *exec.Cmd {
	cmd := exec.Command(h.Command.Args[0], h.Command.Args[1:]...) //nolint:gosec // the operator's own command
	cmd.Env = helperEnv(os.Environ(), h.Env)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = pipes.in.theirs, pipes.out.theirs, pipes.err.theirs
	cmd.SysProcAttr = ownGroup()
	return cmd
}

func (t *talker) readLines() {
	defer close(t.lines)
	from := bufio.NewReader(t.pipes.out.ours)
	var line []byte
	for {
		part, err := from.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > answerLimit:
			t.tornLine = errTooLong
			return
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil:
			if len(line) > 0 {
				t.tornLine = errMidWord
			}
			return
		}
		select {
		case t.lines <- line:
			line = nil
		case <-t.quit:
			return
		}
	}
}

// quiet says that the helper is there and has said nothing since its last
// answer.
func (t *talker) quiet() bool {
	select {
	case <-t.ended:
		return false
	case <-t.lines: // a second answer, or the end
		return false
	default:
		return true
	}
}

// ask writes one question and returns the next line. After an error the helper
// is of no more use.
func (t *talker) ask(ctx context.Context, question []byte) ([]byte, error) {
	written := make(chan error, 1)
	go func() {
		_, err := t.pipes.in.ours.Write(question)
		written <- err
	}()
	select {
	case line, ok := <-t.lines:
		if !ok {
			return nil, t.why(ctx)
		}
		if err := t.whole(ctx, written); err != nil {
			return nil, err
		}
		if !t.quiet() {
			return nil, fmt.Errorf("%w: it wrote more than one line", ErrHelperAnswer)
		}
		return line, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// whole wants the question to have been read before it was answered. What is
// left in the pipe cannot be seen; what did not fit into it can.
func (t *talker) whole(ctx context.Context, written <-chan error) error {
	moment := time.NewTimer(childGrace)
	defer moment.Stop()
	select {
	case err := <-written:
		if err != nil {
			return t.why(ctx)
		}
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-moment.C:
		return fmt.Errorf("%w: %w", ErrHelperAnswer, errUnasked)
	}
}

// why tells how stdout came to its end: the exit status wins, where there is one
// in time.
func (t *talker) why(ctx context.Context) error {
	if errors.Is(t.tornLine, errTooLong) {
		return errTooLong
	}
	said := t.tornLine
	if said == nil {
		said = errNoAnswer
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

func (t *talker) closeInput() { _ = t.pipes.in.ours.Close() }

// end kills the helper with its group and returns when they are gone.
func (t *talker) end() {
	t.endOnce.Do(func() {
		close(t.quit)
		select {
		case <-t.ended: // its number may be somebody else's by now
		default:
			_ = syscall.Kill(-t.pid, syscall.SIGKILL)
		}
	})
	<-t.ended
}

// safeTail is a tail that is read while it is written.
type safeTail struct {
	mu  sync.Mutex
	end tail
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
