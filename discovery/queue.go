package discovery

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// MaxQueue is how many nodes may wait for a worker at most.
const MaxQueue = 50_000

// Crowd is how many announced nodes may wait before the continuous mode
// broadcasts early, to learn which of them answer.
const Crowd = 1000

// ErrQueueFull is the reason to refuse a newcomer for whom there is no room; it
// is forgotten, and the next broadcast finds it again.
var ErrQueueFull = errors.New("too many nodes wait already")

// Queue holds the nodes that wait for a worker in the continuous mode: each
// identity once, whether broadcasts or events bring it. Nodes that answered a
// broadcast go before nodes that only an event announced: one process can
// publish a million events, but has to answer to be seen by a broadcast. It is
// safe for use from many goroutines.
type Queue struct {
	limit int
	tell  func(any)

	mu        sync.Mutex
	interval  time.Duration
	answered  []string          // waiting, first come first; may hold names that wait no more
	announced []string          // likewise, of events; also names that answered since
	entries   map[string]*entry // by what fold makes of an identity
	crowd     int               // waiting nodes that were only announced
	ready     chan struct{}     // has room for one: a node waits
}

// entry is one known identity: waiting, or with a worker.
type entry struct {
	Sighting
	busy bool
}

func (e *entry) onlyAnnounced() bool { return !e.busy && e.Source == ByEvent }

// NewQueue returns an empty queue. A waiting node whose sighting is older than
// interval is renewed by a new one; a younger one is left as it is. tell hears
// of each node that is admitted or refused.
func NewQueue(interval time.Duration, limit int, tell func(any)) *Queue {
	return &Queue{interval: interval, limit: limit, tell: tell, entries: map[string]*entry{}, ready: make(chan struct{}, 1)}
}

// SetInterval changes the interval; nodes that wait already go by it too.
func (q *Queue) SetInterval(interval time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.interval = interval
}

// Add admits a sighting whose name was found valid. A node that is known is not
// added again: while it waits its sighting is renewed when it has become older
// than the interval, and an answer moves it before the announced ones. In a full
// queue an answer takes the place of the oldest announced node. One that is known
// in other letter case is refused, unless that one was only announced and this
// one answered.
func (q *Queue) Add(s Sighting) {
	q.mu.Lock()
	displaced, event := q.admit(s)
	q.mu.Unlock()

	if len(displaced) > 0 {
		q.tell(Dropped{displaced})
	}
	if event != nil {
		q.tell(event)
	}
}

// admit does what Add says, under the lock. It returns the nodes that lost their
// place and the event of this sighting, which is nil for a node that is known.
func (q *Queue) admit(s Sighting) (displaced []string, event any) {
	if s.Source != ByEvent {
		displaced = q.makeRoom(s.Identity)
	}
	known := q.entries[fold(s.Identity)]
	switch {
	case known != nil && known.Identity != s.Identity:
		other := &Duplicate{2, slices.Sorted(slices.Values([]string{known.Identity, s.Identity}))}
		return displaced, Refused{Identity: s.Identity, Count: 1, Err: other}
	case known == nil && len(q.entries) >= q.limit:
		return displaced, Refused{Identity: s.Identity, Count: 1, Err: ErrQueueFull}
	case known == nil:
		q.enter(s)
		return displaced, Admitted{s}
	case !known.busy:
		q.renew(known, s)
	}
	return displaced, nil
}

// makeRoom forgets the announced node that keeps a node which answered from
// being admitted, if there is one.
func (q *Queue) makeRoom(identity string) []string {
	known := q.entries[fold(identity)]
	switch {
	case known != nil && known.Identity != identity && known.onlyAnnounced():
		return q.forget(known)
	case known == nil && len(q.entries) >= q.limit:
		return q.displace()
	}
	return nil
}

func (q *Queue) enter(s Sighting) {
	q.entries[fold(s.Identity)] = &entry{Sighting: s}
	if s.Source == ByEvent {
		q.announced = append(q.announced, s.Identity)
		q.crowd++
	} else {
		q.answered = append(q.answered, s.Identity)
	}
	q.signal()
}

func (q *Queue) renew(known *entry, s Sighting) {
	if s.Seen.Sub(known.Seen) >= q.interval {
		known.Seen = s.Seen
	}
	if known.Source == ByEvent && s.Source != ByEvent {
		known.Source = s.Source
		q.crowd--
		q.answered = append(q.answered, s.Identity)
	}
}

// displace forgets the announced node that waits longest.
func (q *Queue) displace() []string {
	for len(q.announced) > 0 {
		name := q.announced[0]
		q.announced = q.announced[1:]
		if e := q.entry(name); e != nil && e.onlyAnnounced() {
			return q.forget(e)
		}
	}
	return nil
}

// forget removes a node that was only announced.
func (q *Queue) forget(e *entry) []string {
	delete(q.entries, fold(e.Identity))
	q.crowd--
	return []string{e.Identity}
}

// Crowded reports whether so many announced nodes wait that most may not exist.
func (q *Queue) Crowded() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.crowd > Crowd
}

func (q *Queue) signal() {
	select {
	case q.ready <- struct{}{}:
	default:
	}
}

// Take waits for a node and hands it to a worker, who calls Done. It returns
// false when ctx ends.
func (q *Queue) Take(ctx context.Context) (Sighting, bool) {
	for ctx.Err() == nil {
		if s, ok := q.next(); ok {
			return s, true
		}
		select {
		case <-q.ready:
		case <-ctx.Done():
		}
	}
	return Sighting{}, false
}

func (q *Queue) next() (Sighting, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, order := range []*[]string{&q.answered, &q.announced} {
		for len(*order) > 0 {
			name := (*order)[0]
			*order = (*order)[1:]
			if e := q.entry(name); e != nil && !e.busy {
				return q.assign(e), true
			}
		}
	}
	return Sighting{}, false
}

func (q *Queue) assign(e *entry) Sighting {
	e.busy = true
	if e.Source == ByEvent {
		q.crowd--
	}
	if len(q.answered)+len(q.announced) > 0 {
		q.signal() // one signal may stand for many
	}
	return e.Sighting
}

// Done forgets a node that a worker is done with: it may be seen again.
func (q *Queue) Done(identity string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.entry(identity) != nil {
		delete(q.entries, fold(identity))
	}
}

// entry returns what is known of an identity in exactly this spelling.
func (q *Queue) entry(identity string) *entry {
	if e := q.entries[fold(identity)]; e != nil && e.Identity == identity {
		return e
	}
	return nil
}

// Drop forgets every node that waits, tells and returns their names; nodes with
// a worker stay known.
func (q *Queue) Drop() []string {
	dropped := q.empty()
	if len(dropped) > 0 {
		q.tell(Dropped{dropped})
	}
	return dropped
}

func (q *Queue) empty() (dropped []string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, name := range slices.Concat(q.answered, q.announced) {
		if e := q.entry(name); e != nil && !e.busy {
			delete(q.entries, fold(name))
			dropped = append(dropped, name)
		}
	}
	q.answered, q.announced, q.crowd = nil, nil, 0
	return dropped
}

// Cancel forgets a node that was taken and is not worked on after all.
func (q *Queue) Cancel(identity string) {
	q.Done(identity)
	q.tell(Dropped{[]string{identity}})
}

// Waiting counts the nodes that wait for a worker.
func (q *Queue) Waiting() (n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, e := range q.entries {
		if !e.busy {
			n++
		}
	}
	return n
}
