package workers

import (
	"context"
	"slices"
	"sync"
	"time"
)

const (
	// Ahead is how many answered nodes, for each worker, may wait for one: a node
	// is locked for other provisioners from its first answer on.
	Ahead = 3

	// sharedLead is how much of the nodes not begun a pool that shares them may
	// have ahead of its workers: one part in so many. The last nodes then go to
	// the process whose workers come free first.
	sharedLead = 16

	// MaxUnanswered bounds the nodes in stage one, most of them silent ones: each
	// costs its state, a goroutine and a claim.
	MaxUnanswered = 1000

	// How long nothing has to be heard before the calls in flight are written off.
	// It doubles with every such round until there is an answer.
	firstQuiet, mostQuiet = 50 * time.Millisecond, 250 * time.Millisecond
)

// window decides when another first call may go out. Nodes in flight, answered
// nodes and nodes with a worker share a fixed number of places, so that workers
// find answered nodes waiting and these are never many. Silent nodes would keep
// their places for a whole timeout; once workers are about to run out of answered
// nodes, the calls that most likely stay unanswered lose their places: those that
// later calls have overtaken and those after which nothing is heard any more. A
// node that answers after all gets its place back, beyond the number if need be.
type window struct {
	workers int
	shared  bool          // other processes take nodes of the same sequence
	changed chan struct{} // has room for one: await looks again

	mu         sync.Mutex
	left       int       // nodes not begun, when shared
	free       int       // places; negative after answers of nodes that were written off
	unanswered int       // nodes in stage one, those without a place too
	backlog    int       // answered nodes that wait for a worker
	inFlight   []*flight // the ones with a place, in the order they were sent
	quiet      time.Duration
}

// flight is one node's first call, with its attempts.
type flight struct {
	sent       time.Time
	overtaken  int // answers to calls that were sent later
	writtenOff bool
}

func newWindow(workers int) *window {
	return &window{workers: workers, free: workers * (1 + Ahead), quiet: firstQuiet, changed: make(chan struct{}, 1)}
}

// sent takes a place for a call that goes out now.
func (w *window) sent() *flight {
	w.mu.Lock()
	defer w.mu.Unlock()
	f := &flight{sent: time.Now()}
	w.free--
	w.left--
	w.unanswered++
	w.inFlight = append(w.inFlight, f)
	return f
}

// ended ends stage one for a node: with an answer it joins the backlog and keeps
// its place, or takes one again; without one it has its outcome.
func (w *window) ended(f *flight, answered bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	defer w.signal()
	w.unanswered--
	switch {
	case answered && f.writtenOff:
		w.free--
	case answered:
		w.quiet = firstQuiet
		w.overtake(f)
	case !f.writtenOff:
		w.free++
	}
	if answered {
		w.backlog++
	}
	if !f.writtenOff {
		w.inFlight = slices.DeleteFunc(w.inFlight, func(other *flight) bool { return other == f })
	}
}

// overtake counts an answer against the calls that were sent before.
func (w *window) overtake(f *flight) {
	for _, earlier := range w.inFlight {
		if earlier == f {
			return
		}
		earlier.overtaken++
	}
}

// assigned is called when a worker takes a node out of the backlog.
func (w *window) assigned() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.backlog--
	w.signal()
}

// finished frees the place of a node that has its outcome.
func (w *window) finished() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.free++
	w.signal()
}

func (w *window) signal() {
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// await waits until another call may go out; false means that none may any more.
// One goroutine calls it.
func (w *window) await(ctx, stop context.Context) bool {
	for ctx.Err() == nil && stop.Err() == nil {
		again, ready := w.admit(time.Now())
		if ready {
			return true
		}
		var overdue <-chan time.Time // nil: nothing but a change matters
		if again > 0 {
			overdue = time.After(again)
		}
		select {
		case <-w.changed:
		case <-overdue:
		case <-stop.Done():
		case <-ctx.Done():
		}
	}
	return false
}

// admit returns whether a call may go out; if not, when time alone may change
// that, 0 for never.
func (w *window) admit(now time.Time) (again time.Duration, ready bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	starving := w.backlog < w.workers
	if w.unanswered >= MaxUnanswered {
		return 0, false
	}
	withheld := w.withheld()
	if w.free <= withheld && starving {
		w.writeOff(now)
	}
	if w.free > withheld {
		return 0, true
	}
	if !starving || len(w.inFlight) == 0 {
		return 0, false
	}
	return w.inFlight[0].sent.Add(w.quiet).Sub(now), false
}

// withheld is how many places stay empty so that few nodes are left for all
// processes that share them.
func (w *window) withheld() int {
	if !w.shared {
		return 0
	}
	lead := w.workers * Ahead
	return lead - min(lead, max(0, w.left/sharedLead))
}

// writeOff takes their places from the calls that most likely stay unanswered.
func (w *window) writeOff(now time.Time) {
	silent := false
	w.inFlight = slices.DeleteFunc(w.inFlight, func(f *flight) bool {
		overdue := now.Sub(f.sent) >= w.quiet
		silent = silent || overdue
		f.writtenOff = overdue || f.overtaken >= w.workers
		if f.writtenOff {
			w.free++
		}
		return f.writtenOff
	})
	if silent {
		w.quiet = min(2*w.quiet, mostQuiet)
	}
}
