package helper

import (
	"os"
	"time"
)

// processPipes are the three pipes to a worker.
type processPipes struct{ in, out, err pipe }

// pipe has our end and the end that the worker inherits. Ours is non-blocking, so
// that waiting for it needs no thread; theirs blocks, as programs expect.
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

// closeTheirs closes our copies of the worker's ends, so that a stream ends with
// the last process that holds it.
func (p *processPipes) closeTheirs() {
	for _, end := range []pipe{p.in, p.out, p.err} {
		_ = end.theirs.Close()
	}
}

// expire bounds the time for draining: a process that left the group may hold the
// other ends for ever.
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
