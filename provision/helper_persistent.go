package provision

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"choria-provision/config"
)

// PersistentHelper asks helpers that stay: each reads one input a line and
// writes one answer a line. One is started when none is idle, so there are as
// many as ask at once. A helper that fails in any way is ended with its process
// group; the next node gets a new one.
type PersistentHelper struct {
	exec ExecHelper

	mu      sync.Mutex
	idle    []*talker
	leaving []*talker // told to end
	retired bool
	closed  bool
}

// NewPersistentHelper takes command, time limit and environment from h. Close
// ends what it starts.
func NewPersistentHelper(h ExecHelper) *PersistentHelper { return &PersistentHelper{exec: h} }

// Answer implements Helper, with the errors of ExecHelper. An answer that does
// not name the identity it is for is refused.
func (p *PersistentHelper) Answer(ctx context.Context, in HelperInput) (Answer, error) {
	if len(p.exec.Command.Args) == 0 {
		return Answer{}, fmt.Errorf("%w: none is configured; set helper", ErrHelper)
	}
	input, err := json.Marshal(in)
	if err != nil {
		return Answer{}, fmt.Errorf("%w: encoding its input: %w", ErrHelper, err)
	}
	timeout := p.exec.Timeout
	if timeout <= 0 {
		timeout = config.Default().HelperTimeout.Duration
	}
	limited, cancel := context.WithTimeoutCause(ctx, timeout, errTooSlow)
	defer cancel()
	t, err := p.take(limited)
	if err != nil {
		return Answer{}, explainHelper(err, child{args: p.exec.Command.Args}, timeout)
	}
	line, err := t.ask(limited, append(input, '\n'))
	if err != nil {
		t.end()
		return Answer{}, explainHelper(err, child{args: p.exec.Command.Args, stderr: t.stderr.last()}, timeout)
	}
	answer, err := parseAnswerOf(in.Identity, line)
	if err != nil { // whoever is out of step once may be out of step with the next node
		t.end()
		return Answer{}, fmt.Errorf("%w%s", err, child{stderr: t.stderr.last()}.said())
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
		return Answer{}, fmt.Errorf("%w: %w", ErrHelperAnswer, err)
	case named == nil:
		return Answer{}, fmt.Errorf("%w: it names no identity, as every answer of a persistent helper must", ErrHelperAnswer)
	case *named != identity:
		return Answer{}, fmt.Errorf("%w: it is for %q, the question was about %q", ErrHelperAnswer, *named, identity)
	}
	return answer, nil
}

// take returns a helper that waits to be asked. One that died or spoke unasked
// meanwhile is ended and passed over.
func (p *PersistentHelper) take(ctx context.Context) (*talker, error) {
	for {
		p.mu.Lock()
		last := len(p.idle) - 1
		if p.closed || last < 0 {
			closed := p.closed
			p.mu.Unlock()
			if closed {
				return nil, errors.New("the run is over")
			}
			return startTalker(ctx, p.exec)
		}
		t := p.idle[last]
		p.idle = p.idle[:last]
		p.mu.Unlock()
		if t.quiet() {
			return t, nil
		}
		t.end()
	}
}

func (p *PersistentHelper) put(t *talker) {
	p.mu.Lock()
	over := p.closed || p.retired
	if !over {
		p.idle = append(p.idle, t)
	}
	p.mu.Unlock()
	if over {
		t.end()
	}
}

// Retire lets the helpers go without waiting for it: those that wait to be asked
// at once, each of the others after its answer. Who still asks is answered, by
// a helper that ends then.
func (p *PersistentHelper) Retire() {
	p.mu.Lock()
	defer p.mu.Unlock()
	idle := p.idle
	p.idle, p.retired = nil, true
	p.leaving = append(p.leaving, idle...)
	for _, t := range idle {
		t.closeInput()
		time.AfterFunc(childGrace, t.end)
	}
}

// Close ends the helpers: their stdin is closed, and after a moment they are
// killed. It returns when none is left that was not at work.
func (p *PersistentHelper) Close() {
	p.mu.Lock()
	idle := append(p.leaving, p.idle...)
	p.idle, p.leaving, p.closed = nil, nil, true
	p.mu.Unlock()
	endAll(idle)
}

func endAll(idle []*talker) {
	for _, t := range idle {
		t.closeInput()
	}
	moment := time.NewTimer(childGrace)
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
		t.end()
	}
}
