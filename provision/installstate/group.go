package installstate

import "sync"

// group shares runs of one function among callers that come at the same time: a
// run covers those who asked before it began. (The singleflight of x/sync would
// hand out a run that began before: what was renamed since is not flushed by it.)
// The zero group is ready.
type group struct {
	mu      sync.Mutex
	running *round // the last that began; nil: none yet
	waiting *round // who asks now joins it; nil: nobody waits
}

type round struct {
	done chan struct{}
	err  error
}

// do returns what a run said that began after do was called. Callers give
// functions that do the same.
func (g *group) do(run func() error) error {
	r, before, mine := g.join()
	if !mine {
		<-r.done
		return r.err
	}
	if before != nil {
		<-before.done
	}
	g.begin(r)
	defer close(r.done)
	r.err = run()
	return r.err
}

// join returns the round that waits, the one before it, and whether the caller
// is its first and has to see to it.
func (g *group) join() (r, before *round, mine bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.waiting != nil {
		return g.waiting, nil, false
	}
	g.waiting = &round{done: make(chan struct{})}
	return g.waiting, g.running, true
}

// begin lets nobody join any more: who comes now may have come too late.
func (g *group) begin(r *round) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.running, g.waiting = r, nil
}
