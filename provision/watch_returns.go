package provision

import (
	"context"
	"sync"
	"time"

	"choria-provision/discovery"
	"choria-provision/provision/installstate"
)

// readmission is how often the nodes whose hold has ended are looked for.
const readmission = time.Second

// returns are nodes that announced a new start while they were held. A node
// says that once: without this it would wait for the first tick after its hold,
// which is every second one. The zero value is ready for use.
type returns struct {
	mu    sync.Mutex
	known map[string]returning // by identity: no more than there are records
}

type returning struct {
	discovery.Sighting
	due time.Time
}

// restartedSince says whether a sighting proves that a held node is another
// process than the one that the hold is for. An answer to a broadcast does not:
// a node that restarts goes on answering for some seconds.
func restartedSince(s discovery.Sighting, held installstate.Record) bool {
	return s.Source == discovery.ByEvent && s.Seen.After(held.Updated)
}

func (r *returns) add(s discovery.Sighting, due time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.known == nil {
		r.known = map[string]returning{}
	}
	r.known[s.Identity] = returning{s, due}
}

// take removes and returns those that are due.
func (r *returns) take(now time.Time) (due []discovery.Sighting) {
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

// readmit admits nodes whose hold has ended, until stop ends.
func (w *Watcher) readmit(stop context.Context) {
	ticker := time.NewTicker(readmission)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			for _, s := range w.returns.take(time.Now()) {
				w.Admit(s)
			}
		case <-stop.Done():
			return
		}
	}
}
