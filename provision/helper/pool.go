package helper

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Pool asks helpers that stay: each reads one input a line and
// writes one answer a line. One is started when none is idle, so there are as
// many as ask at once. A helper that fails in any way is ended with its process
// group; the next node gets a new one.
type Pool struct {
	exec Exec

	mu       sync.Mutex
	idle     []*worker
	draining []*worker // told to end
	drained  bool
	closed   bool
}

// NewPool takes command, time limit and environment from h. Close
// ends what it starts.
func NewPool(h Exec) *Pool { return &Pool{exec: h} }

// Answer implements Helper, with the errors of Exec. An answer that does
// not name the identity it is for is refused.
func (p *Pool) Answer(ctx context.Context, in Input) (Answer, error) {
	if len(p.exec.Command.Args) == 0 {
		return Answer{}, fmt.Errorf("%w: none is configured; set helper", ErrFailed)
	}
	input, err := json.Marshal(in)
	if err != nil {
		return Answer{}, fmt.Errorf("%w: encoding its input: %w", ErrFailed, err)
	}
	timeout := p.exec.timeout()
	limited, cancel := context.WithTimeoutCause(ctx, timeout, errTooSlow)
	defer cancel()
	t, err := p.get(limited)
	if err != nil {
		return Answer{}, explainEnd(err, &process{args: p.exec.Command.Args}, timeout)
	}
	line, err := t.exchange(limited, append(input, '\n'))
	if err != nil {
		t.kill()
		return Answer{}, explainEnd(err, &process{args: p.exec.Command.Args, stderr: tailBuffer{t.stderr.last()}}, timeout)
	}
	answer, err := parseAnswerOf(in.Identity, line)
	if err != nil { // a worker out of step once may be so with the next node
		t.kill()
		return Answer{}, fmt.Errorf("%w%s", err, quoteStderr(t.stderr.last()))
	}
	p.put(t)
	return answer, nil
}

// parseAnswerOf reads the answer of a helper that stays. It must name the node
// that was asked about: an answer that is one too late is a good one otherwise.
func parseAnswerOf(identity string, line []byte) (Answer, error) {
	answer, err := parseAnswer(line)
	if err != nil {
		return answer, err
	}
	named, err := answerIdentity(line)
	switch {
	case err != nil:
		return Answer{}, fmt.Errorf("%w: %w", ErrAnswer, err)
	case named == nil:
		return Answer{}, fmt.Errorf("%w: it names no identity, as every answer of a persistent helper must", ErrAnswer)
	case *named != identity:
		return Answer{}, fmt.Errorf("%w: it is for %q, the question was about %q", ErrAnswer, *named, identity)
	}
	return answer, nil
}

// get returns a helper that waits to be asked. One that died or spoke unasked
// meanwhile is ended and passed over.
func (p *Pool) get(ctx context.Context) (*worker, error) {
	for {
		p.mu.Lock()
		last := len(p.idle) - 1
		if p.closed || last < 0 {
			closed := p.closed
			p.mu.Unlock()
			if closed {
				return nil, errors.New("the run is over")
			}
			return startWorker(ctx, p.exec)
		}
		t := p.idle[last]
		p.idle = p.idle[:last]
		p.mu.Unlock()
		if t.idle() {
			return t, nil
		}
		t.kill()
	}
}

func (p *Pool) put(t *worker) {
	p.mu.Lock()
	over := p.closed || p.drained
	if !over {
		p.idle = append(p.idle, t)
	}
	p.mu.Unlock()
	if over {
		t.kill()
	}
}

// Drain lets the helpers go without waiting for it: those that wait to be asked
// at once, each of the others after its answer. Who still asks is answered, by
// a helper that ends then.
func (p *Pool) Drain() {
	p.mu.Lock()
	defer p.mu.Unlock()
	idle := p.idle
	p.idle, p.drained = nil, true
	p.draining = append(p.draining, idle...)
	for _, t := range idle {
		t.closeInput()
		time.AfterFunc(gracePeriod, t.kill)
	}
}

// Close ends the helpers: their stdin is closed, and after a moment they are
// killed. It returns when none is left that was not at work.
func (p *Pool) Close() {
	p.mu.Lock()
	idle := append(p.draining, p.idle...)
	p.idle, p.draining, p.closed = nil, nil, true
	p.mu.Unlock()
	endAll(idle)
}

func endAll(idle []*worker) {
	for _, t := range idle {
		t.closeInput()
	}
	moment := time.NewTimer(gracePeriod)
	defer moment.Stop()
	over := false
	for _, t := range idle {
		if !over {
			select {
			case <-t.ended:
			case <-moment.C:
				over = true
			}
		}
		t.kill()
	}
}
