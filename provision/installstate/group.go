package installstate

import "sync"

// group shares runs of one function among callers that come at the same time: a
// run covers those who asked before it began, and gets what each of them brought.
// (The singleflight of x/sync would hand out a run that began before: what was
// renamed since is not flushed by it.) The zero group is ready.
type group[T any] struct {
	gather func() // delays a run for those who are about to ask; nil: does not

	mu      sync.Mutex
	running *round[T] // the last that began; nil: none yet
	waiting *round[T] // who asks now joins it; nil: nobody waits
}

type round[T any] struct {
	items []T
	done  chan struct{}
	err   error
}

// do returns what a run said that began after do was called and got item.
// Callers give functions that do the same.
func (g *group[T]) do(item T, run func([]T) error) error {
	r, before, mine := g.join(item)
	if !mine {
		<-r.done
		return r.err
	}
	if before != nil {
		<-before.done
	}
	if g.gather != nil {
		g.gather()
	}
	g.begin(r)
	defer close(r.done)
	r.err = run(r.items)
	return r.err
}

// join returns the round that waits, the one before it, and whether the caller
// is its first and has to see to it.
func (g *group[T]) join(item T) (r, before *round[T], mine bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.waiting != nil {
		g.waiting.items = append(g.waiting.items, item)
		return g.waiting, nil, false
	}
	g.waiting = &round[T]{items: []T{item}, done: make(chan struct{})}
	return g.waiting, g.running, true
}

// begin lets nobody join any more: who comes now may have come too late.
func (g *group[T]) begin(r *round[T]) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.running, g.waiting = r, nil
}
