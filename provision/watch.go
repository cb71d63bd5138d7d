package provision

import (
	"context"
	"iter"
	"sync"
	"time"

	"choria-provision/discovery"
	"choria-provision/provision/installstate"
	"choria-provision/provision/workers"

	"golang.org/x/sync/errgroup"
)

// Watcher is the continuous mode: nodes come in by broadcast and by event, and
// workers take them from one queue.
type Watcher struct {
	// Runner returns the runner in force: the configuration may be read again
	// while nodes are at work.
	Runner func() *Runner
	Queue  *discovery.Queue
	// Discover asks once who waits.
	Discover func(ctx context.Context) ([]discovery.Sighting, error)
	// Trigger asks for a discovery now: the leadership was won, a pause ended.
	Trigger <-chan struct{}
	// Cycled is called after each discovery, and once more at the end.
	Cycled func(err error)

	requeue requeue
}

// Run works until stop ends: then intake ends and nodes at work stop at a safe
// step; when ctx ends they stop at once. It returns when all is quiet.
func (w *Watcher) Run(ctx, stop context.Context) {
	var group errgroup.Group
	group.Go(func() error {
		w.cycles(ctx, stop)
		return nil
	})
	group.Go(func() error {
		w.requeueDue(stop)
		return nil
	})
	workers.New(w.Runner().Config.Workers).Run(ctx, stop, w.waiting(stop))
	_ = group.Wait() // the functions return nil
	w.Cycled(nil)
}

// waiting gives the nodes of the queue as they come, until stop ends. One whose
// turn comes when nothing may be done is forgotten: the discovery that follows
// finds it again.
func (w *Watcher) waiting(stop context.Context) iter.Seq[workers.Node] {
	helpers := helperBound(w.Runner().Config)
	return func(yield func(workers.Node) bool) {
		for {
			s, ok := w.Queue.Take(stop)
			if !ok {
				return
			}
			r := w.Runner()
			if r.ended(stop, stop) {
				w.Queue.Cancel(s.Identity)
				continue
			}
			t := r.task(stop, s, helpers)
			t.done = func() { w.Queue.Done(s.Identity) }
			if !yield(t) {
				return
			}
		}
	}
}

// crowdedShare is the part of an interval after which a crowd of announced nodes
// brings a discovery, so that a real one among them does not wait for its turn.
const crowdedShare = 4

// cycles asks who waits: at once, then at every tick, at every trigger and, after
// a part of the interval, when announced nodes crowd the queue.
func (w *Watcher) cycles(ctx, stop context.Context) {
	for {
		started := time.Now()
		if w.Runner().May() == nil && w.Runner().recoverState() {
			seen, err := w.Discover(stop)
			for _, s := range w.Runner().prepare(seen) {
				w.Admit(s)
			}
			w.Runner().Settle(ctx, stop)
			if stop.Err() == nil {
				w.Cycled(err)
			}
		}
		w.awaitDiscovery(stop, started)
		if stop.Err() != nil {
			return
		}
	}
}

// awaitDiscovery returns when the discovery is due that follows one.
func (w *Watcher) awaitDiscovery(stop context.Context, last time.Time) {
	interval := w.Runner().Config.Interval.Duration
	tick, early := time.NewTimer(time.Until(last.Add(interval))), time.NewTicker(interval/crowdedShare)
	defer tick.Stop()
	defer early.Stop()
	for {
		select {
		case <-early.C:
			if w.Queue.Crowded() {
				return
			}
		case <-tick.C:
			return
		case <-w.Trigger:
			return
		case <-stop.Done():
			return
		}
	}
}

// Admit lets a node wait for a worker, whether a broadcast or an event brought
// it. One that is held is not worth a worker: it may still be restarting. When
// it announced a start since, it gets its turn as soon as the hold ends.
func (w *Watcher) Admit(s discovery.Sighting) {
	r := w.Runner()
	if s.Source == discovery.ByEvent && r.Announcements != nil {
		r.Announcements.Started(s.Identity)
	}
	if r.May() != nil {
		return
	}
	if s.Err != nil {
		r.Tell(NodeDone{refused(s, discoveryStep, s.Err)})
		return
	}
	if record, err := r.Store.Load(s.Identity); err == nil && record.Held(time.Now()) {
		if restartedSince(s, record) {
			w.requeue.add(s, record.HoldUntil)
		}
		return
	}
	w.Queue.Add(s)
}

// recoverState finds out whether a state directory that failed takes records again.
func (r *Runner) recoverState() bool {
	if r.broken.Load() == nil {
		return true
	}
	if err := r.Store.CheckWritable(); err != nil {
		return false
	}
	r.broken.Store(nil)
	return true
}

// StateErr is why the state directory stopped taking records, nil while it
// takes them.
func (r *Runner) StateErr() error {
	if broken := r.broken.Load(); broken != nil {
		return *broken
	}
	return nil
}

// requeueInterval is how often the nodes whose hold has ended are looked for.
const requeueInterval = time.Second

// requeue holds nodes that announced a new start while they were held. A node
// says that once: without this it would wait for the first tick after its hold,
// which is every second one. The zero value is ready for use.
type requeue struct {
	mu    sync.Mutex
	known map[string]requeued // by identity: no more than there are records
}

type requeued struct {
	discovery.Sighting
	due time.Time
}

// restartedSince says whether a sighting proves that a held node is another
// process than the one that the hold is for. An answer to a broadcast does not:
// a node that restarts goes on answering for some seconds.
func restartedSince(s discovery.Sighting, held installstate.Record) bool {
	return s.Source == discovery.ByEvent && s.Seen.After(held.Updated)
}

func (r *requeue) add(s discovery.Sighting, due time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.known == nil {
		r.known = map[string]requeued{}
	}
	r.known[s.Identity] = requeued{s, due}
}

// take removes and returns those that are due.
func (r *requeue) take(now time.Time) (due []discovery.Sighting) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, n := range r.known {
		if !now.Before(n.due) {
			due = append(due, n.Sighting)
			delete(r.known, name)
		}
	}
	return due
}

// requeueDue admits nodes whose hold has ended, until stop ends.
func (w *Watcher) requeueDue(stop context.Context) {
	ticker := time.NewTicker(requeueInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			for _, s := range w.requeue.take(time.Now()) {
				w.Admit(s)
			}
		case <-stop.Done():
			return
		}
	}
}
