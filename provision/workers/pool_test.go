package workers_test

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"choria-provision/provision/workers"
)

// site counts where its nodes are.
type site struct {
	mu       sync.Mutex
	now, max counts
	order    []string // of the outcomes
}

type counts struct{ inFlight, waiting, working int }

func (s *site) move(inFlight, waiting, working int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now.inFlight += inFlight
	s.now.waiting += waiting
	s.now.working += working
	s.max.inFlight = max(s.max.inFlight, s.now.inFlight)
	s.max.waiting = max(s.max.waiting, s.now.waiting)
	s.max.working = max(s.max.working, s.now.working)
}

// node answers its first call after a while, or not, and then takes its time.
type node struct {
	*site
	name           string
	answers, takes time.Duration
	silent         bool
}

func (n *node) FirstCall(ctx context.Context) bool {
	n.move(1, 0, 0)
	pause(ctx, n.answers)
	if n.silent || ctx.Err() != nil {
		n.move(-1, 0, 0)
		return false
	}
	n.move(-1, 1, 0)
	return true
}

func (n *node) Finish(ctx context.Context) {
	n.move(0, -1, 1)
	pause(ctx, n.takes)
	n.move(0, 0, -1)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.order = append(n.order, n.name)
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

func (s *site) live(count int, answers, takes time.Duration) (nodes []workers.Node) {
	for range count {
		nodes = append(nodes, &node{site: s, name: "live", answers: answers, takes: takes})
	}
	return nodes
}

func (s *site) silent(count int) (nodes []workers.Node) {
	for range count {
		nodes = append(nodes, &node{site: s, name: "silent", answers: 22 * time.Second, silent: true})
	}
	return nodes
}

func run(t *testing.T, count int, nodes iter.Seq[workers.Node]) time.Duration {
	t.Helper()
	start := time.Now()
	workers.New(count).Run(t.Context(), t.Context(), nodes)
	return time.Since(start)
}

func TestAnsweredNodesRunAheadOfWorkersByASmallMultiple(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name           string
		workers        int
		answers, takes time.Duration
		want           time.Duration
	}{
		{"one worker", 1, time.Millisecond, time.Second, 400*time.Second + time.Millisecond},
		{"ten workers", 10, time.Millisecond, time.Second, 40*time.Second + time.Millisecond},
		{"nodes far away", 10, 49 * time.Millisecond, 200 * time.Millisecond, 8*time.Second + 49*time.Millisecond},
		{"answers that take as long as the rest", 10, 10 * time.Millisecond, 10 * time.Millisecond, 410 * time.Millisecond},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &site{}
				took := run(t, tt.workers, slices.Values(s.live(400, tt.answers, tt.takes)))
				if took != tt.want {
					t.Errorf("took %s, want %s: no worker waits after the first answers", took, tt.want)
				}
				if s.max.working != tt.workers || s.max.waiting > (workers.Ahead+1)*tt.workers || len(s.order) != 400 {
					t.Errorf("got at most %+v and %d outcomes, want %d working, at most %d waiting for each and 400 outcomes", s.max, len(s.order), tt.workers, workers.Ahead)
				}
			})
		})
	}
}

// Nodes that take longer than firstQuiet to answer look silent at the start.
// What was sent for them counts once they answer: no more go out until the
// backlog is down to its bound.
func TestNodesThatAnswerLateSlowTheFirstCallsDown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &site{}
		nodes := s.live(200, 400*time.Millisecond, time.Second)
		atStart := 0
		nodes[100] = &watched{nodes[100], func() { atStart, s.max = s.max.waiting, counts{} }, s}
		took := run(t, 1, slices.Values(nodes))
		if atStart > 20 || s.max.waiting > workers.Ahead+1 || took > 201*time.Second {
			t.Errorf("got %d nodes waiting at the start, %d later and %s, want at most 20, %d and 200 s of work", atStart, s.max.waiting, took, workers.Ahead)
		}
	})
}

// As long as answered nodes wait there is no hurry: nodes that answer late keep
// their places.
func TestNoCallIsWrittenOffWhileWorkersHaveEnoughToDo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &site{}
		nodes := append(s.live(2, 0, 10*time.Second), s.live(50, 400*time.Millisecond, 10*time.Second)...)
		run(t, 1, slices.Values(nodes))
		if s.max.waiting > workers.Ahead+1 {
			t.Errorf("got %d nodes waiting, want at most %d", s.max.waiting, workers.Ahead+1)
		}
	})
}

func TestSilentNodesCostTheLivingNothing(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		workers int
		nodes   func(*site) []workers.Node
		want    time.Duration // when the last live node is done
	}{
		{"thirty and one worker", 1, func(s *site) []workers.Node {
			return append(s.silent(30), s.live(1, time.Millisecond, time.Second)...)
		}, 3 * time.Second},
		{"a hundred before a hundred", 10, func(s *site) []workers.Node {
			return append(s.silent(100), s.live(100, 10*time.Millisecond, 50*time.Millisecond)...)
		}, 750 * time.Millisecond},
		{"a hundred among a hundred", 10, func(s *site) (nodes []workers.Node) {
			for range 100 {
				nodes = append(nodes, append(s.silent(1), s.live(1, 10*time.Millisecond, 50*time.Millisecond)...)...)
			}
			return nodes
		}, 600 * time.Millisecond},
		{"a hundred among a hundred that are fast", 10, func(s *site) (nodes []workers.Node) {
			for range 100 {
				nodes = append(nodes, append(s.silent(1), s.live(1, time.Millisecond, 2*time.Millisecond)...)...)
			}
			return nodes
		}, 30 * time.Millisecond},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &site{}
				var last time.Duration
				nodes, start := tt.nodes(s), time.Now()
				for i, n := range nodes {
					nodes[i] = &watched{n, func() { last = time.Since(start) }, s}
				}
				run(t, tt.workers, slices.Values(nodes))
				if last == 0 || last > tt.want {
					t.Errorf("the last live node was done after %s, want at most %s", last, tt.want)
				}
			})
		})
	}
}

// watched tells when a node was finished.
type watched struct {
	workers.Node
	done func()
	*site
}

func (w *watched) Finish(ctx context.Context) {
	w.Node.Finish(ctx)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.done()
}

func TestNoMoreNodesAreInFlightThanAreAllowed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &site{}
		run(t, 3, slices.Values(s.silent(workers.MaxUnanswered+500)))
		if s.max.inFlight != workers.MaxUnanswered {
			t.Errorf("got %d first calls in flight, want %d", s.max.inFlight, workers.MaxUnanswered)
		}
	})
}

func TestStopTakesNoFurtherNode(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(stop, cancel context.CancelFunc){
		"a stop":              func(stop, _ context.CancelFunc) { stop() },
		"the end of all work": func(_, cancel context.CancelFunc) { cancel() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				stop, cancelStop := context.WithCancel(t.Context())
				defer cancelStop()
				s, taken := &site{}, 0
				time.AfterFunc(10*time.Second+time.Millisecond, func() { end(cancelStop, cancel) })
				workers.New(1).Run(ctx, stop, func(yield func(workers.Node) bool) {
					for _, n := range s.live(100, 0, 3*time.Second) {
						taken++
						if !yield(n) {
							return
						}
					}
				})
				if taken != 7 || len(s.order) != taken || s.now != (counts{}) {
					t.Errorf("got %d nodes taken, %d outcomes and %+v left, want 7, 7 and none", taken, len(s.order), s.now)
				}
			})
		})
	}
}

// A sequence may have no node for a while: watch waits for them.
func TestNodesMayComeAsTheyLike(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &site{}
		took := run(t, 2, func(yield func(workers.Node) bool) {
			for _, n := range append(s.silent(20), s.live(3, time.Millisecond, time.Second)...) {
				time.Sleep(time.Minute)
				if !yield(n) {
					return
				}
			}
		})
		if want := 23*time.Minute + time.Second + time.Millisecond; took != want || len(s.order) != 3 {
			t.Errorf("took %s for %d nodes, want %s for 3", took, len(s.order), want)
		}
	})
}

// shared is a node that several pools take from: the first to call it has it.
type shared struct {
	*node
	claimed *atomic.Bool
}

func (n *shared) FirstCall(ctx context.Context) bool {
	return n.claimed.CompareAndSwap(false, true) && n.node.FirstCall(ctx)
}

func TestPoolsThatShareFewNodesLeaveSomeToEachOther(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ nodes, atMost int }{{30, 12}, {300, 110}, {3, 3}} {
		t.Run(fmt.Sprint(tt.nodes), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				claimed := make([]atomic.Bool, tt.nodes)
				var pools sync.WaitGroup
				var total atomic.Int64
				for host := range 3 {
					pools.Go(func() {
						s := &site{}
						var nodes []workers.Node
						for i := range tt.nodes { // each host begins elsewhere
							at := (i + host*tt.nodes/3) % tt.nodes
							nodes = append(nodes, &shared{&node{site: s, answers: time.Millisecond, takes: 300 * time.Millisecond}, &claimed[at]})
						}
						pool := workers.New(10)
						pool.Share(tt.nodes)
						pool.Run(t.Context(), t.Context(), slices.Values(nodes))
						total.Add(int64(len(s.order)))
						if len(s.order) > tt.atMost {
							t.Errorf("one of three hosts had %d of %d nodes, want at most %d", len(s.order), tt.nodes, tt.atMost)
						}
					})
				}
				pools.Wait()
				if total.Load() != int64(tt.nodes) {
					t.Errorf("got %d outcomes, want %d", total.Load(), tt.nodes)
				}
			})
		})
	}
}
