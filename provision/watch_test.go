package provision_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"choria-provision/config"
	"choria-provision/discovery"
	"choria-provision/internal/fake"
	"choria-provision/provision"
	"choria-provision/provision/workers"

	"github.com/google/go-cmp/cmp"
)

// watching runs a watcher over a bench until the test ends it.
type watching struct {
	*bench
	*provision.Watcher
	trigger chan struct{}
	present atomic.Pointer[[]string] // who answers a broadcast
	asked   atomic.Int32             // broadcasts so far
}

func watch(t *testing.T, b *bench) (*watching, func()) {
	t.Helper()
	w := &watching{bench: b, trigger: make(chan struct{}, 1)}
	w.present.Store(&[]string{})
	w.Watcher = &provision.Watcher{
		Runner: func() *provision.Runner { return b.Runner },
		Queue:  discovery.NewQueue(b.Config.Interval.Duration, discovery.MaxQueue, b.observe),
		Discover: func(context.Context) (seen []discovery.Sighting, err error) {
			w.asked.Add(1)
			for _, name := range *w.present.Load() {
				seen = append(seen, discovery.Sighting{Identity: name, Seen: time.Now(), Source: discovery.ByBroadcast})
			}
			return seen, nil
		},
		Trigger: w.trigger,
		Cycled:  func(error) {},
	}
	stop, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		w.Watcher.Run(t.Context(), stop)
		close(done)
	}()
	return w, func() { cancel(); <-done }
}

func (w *watching) event(name string) {
	w.Admit(discovery.Sighting{Identity: name, Seen: time.Now(), Source: discovery.ByEvent})
}

func TestWatchDiscoversAtOnceAtEveryTickAndWhenTriggered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, end := watch(t, newBench(t, nil))
		defer end()
		synctest.Wait()
		counts := []int32{w.asked.Load()}
		time.Sleep(time.Minute + time.Second)
		counts = append(counts, w.asked.Load())
		w.trigger <- struct{}{}
		synctest.Wait()
		counts = append(counts, w.asked.Load())
		if diff := cmp.Diff([]int32{1, 2, 3}, counts); diff != "" {
			t.Errorf("discoveries (-want +got):\n%s", diff)
		}
	})
}

func TestANodeThatAnnouncesItselfNeedsNoTick(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, end := watch(t, newBench(t, nil))
		defer end()
		synctest.Wait()
		before := time.Now()
		w.event(node1)
		synctest.Wait()
		if _, times := w.fleet.Configured(node1); times != 1 || !time.Now().Equal(before) {
			t.Errorf("configured %d times after %s, want once and at once", times, time.Since(before))
		}
	})
}

// patient is a bench whose watcher has no tick within a test.
func patient(t *testing.T) *bench {
	return newBench(t, func(c *config.Config) { c.Interval = config.Duration{Duration: 24 * time.Hour} })
}

func TestTheHoldKeepsARestartingNodeOutAndThenLetsItIn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, end := watch(t, patient(t))
		defer end()
		w.event(node1)
		synctest.Wait()
		time.Sleep(10 * time.Second)
		w.event(node1) // it is back, and says so once
		time.Sleep(49 * time.Second)
		synctest.Wait()
		if _, times := w.fleet.Configured(node1); times != 1 {
			t.Errorf("configured %d times within the hold, want once", times)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if _, times := w.fleet.Configured(node1); times != 2 {
			t.Errorf("configured %d times after the hold, want twice", times)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if _, times := w.fleet.Configured(node1); times != 2 {
			t.Errorf("configured %d times an hour later, want twice: one announcement is one turn", times)
		}
	})
}

func TestOnlyANewStartEarnsATurnAfterTheHold(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		sight func(w *watching, before time.Time)
		lost  bool // the leadership, after the sighting
	}{
		{"an answer to a broadcast: it may be on its way out", func(w *watching, _ time.Time) {
			w.Admit(discovery.Sighting{Identity: node1, Seen: time.Now(), Source: discovery.ByBroadcast})
		}, false},
		{"a start from before the restart", func(w *watching, before time.Time) {
			w.Admit(discovery.Sighting{Identity: node1, Seen: before, Source: discovery.ByEvent})
		}, false},
		{"a start that another instance is to look after", func(w *watching, _ time.Time) { w.event(node1) }, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := patient(t)
				var lost atomic.Bool
				b.May = func() error {
					if lost.Load() {
						return provision.ErrNotLeader
					}
					return nil
				}
				w, end := watch(t, b)
				defer end()
				before := time.Now()
				time.Sleep(time.Second)
				w.event(node1)
				synctest.Wait()
				time.Sleep(time.Second)
				test.sight(w, before)
				lost.Store(test.lost)
				time.Sleep(time.Hour)
				synctest.Wait()
				if _, times := w.fleet.Configured(node1); times != 1 {
					t.Errorf("configured %d times, want once", times)
				}
			})
		})
	}
}

func TestAFailedNodeIsFreeForTheNextTick(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil)
		b.fleet.On(node1, inventory, func(_ context.Context, number int, ok func() provision.Reply) ([]provision.Reply, error) {
			if number == 1 {
				return []provision.Reply{ok(), ok()}, nil
			}
			return []provision.Reply{ok()}, nil
		})
		w, end := watch(t, b)
		defer end()
		synctest.Wait()
		w.present.Store(&[]string{node1})
		time.Sleep(time.Minute + time.Second)
		synctest.Wait()
		if got := len(w.fleet.Actions(node1)); got != 1 {
			t.Fatalf("%d calls after the first tick, want the one that failed", got)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if _, times := w.fleet.Configured(node1); times != 1 {
			t.Errorf("configured %d times after the second tick, want once", times)
		}
	})
}

func TestALostElectionEmptiesTheQueueAndStopsNodesAtTheirNextCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, func(c *config.Config) { c.Workers = 1 })
		var led atomic.Bool
		led.Store(true)
		b.May = func() error {
			if led.Load() {
				return nil
			}
			return provision.ErrNotLeader
		}
		b.Helper = thinking(node1, time.Second)
		w, end := watch(t, b)
		defer end()
		synctest.Wait()
		w.event(node1)
		synctest.Wait()
		ahead := named("ahead", workers.Ahead) // they answer and wait for the only worker
		for _, name := range ahead {
			w.event(name)
		}
		synctest.Wait()
		w.event("n2") // waits in the queue
		w.event("n4")
		time.Sleep(500 * time.Millisecond)
		led.Store(false)
		dropped := w.Queue.Drop()
		time.Sleep(time.Second)
		synctest.Wait()
		if diff := cmp.Diff([]string{"n2", "n4"}, dropped); diff != "" {
			t.Errorf("dropped (-want +got):\n%s", diff)
		}
		if calls := w.fleet.Actions("n2"); calls != nil {
			t.Errorf("a node that waited was asked for %v after the loss", calls)
		}
		for _, name := range append(ahead, node1) {
			if diff := cmp.Diff([]string{inventory}, w.fleet.Actions(name)); diff != "" {
				t.Errorf("%s: calls to a node that had answered (-want +got):\n%s", name, diff)
			}
		}
		w.event("n3")
		time.Sleep(2 * time.Minute)
		if asked := w.asked.Load(); asked != 1 || w.fleet.Actions("n3") != nil {
			t.Errorf("%d discoveries and calls %v while another leads, want no more", asked, w.fleet.Actions("n3"))
		}
		led.Store(true)
		w.present.Store(&[]string{"n2"})
		w.trigger <- struct{}{}
		synctest.Wait()
		if _, times := w.fleet.Configured("n2"); times != 1 {
			t.Errorf("configured %d times after the election was won again, want once", times)
		}
	})
}

// thinking is a helper that takes its time over one node; that occupies a worker.
func thinking(name string, d time.Duration) helperFunc {
	return func(ctx context.Context, in provision.HelperInput) (provision.Answer, error) {
		if in.Identity == name {
			time.Sleep(d)
		}
		return obliging(ctx, in)
	}
}

func TestAStaleNodeIsDroppedWithAWord(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, func(c *config.Config) { c.Workers = 1 })
		b.Helper = thinking("slow", 3*time.Minute)
		w, end := watch(t, b)
		defer end()
		synctest.Wait()
		w.event("slow")
		synctest.Wait()
		w.event(node1)
		time.Sleep(4 * time.Minute)
		synctest.Wait()
		var got provision.Result
		b.mu.Lock()
		for _, event := range b.events {
			if done, ok := event.(provision.NodeDone); ok && done.Node == node1 {
				got = done.Result
			}
		}
		b.mu.Unlock()
		if got.Outcome != provision.Skipped || !errors.Is(got.Err, provision.ErrStale) {
			t.Errorf("got %s (%v), want skipped as stale", got.Outcome, got.Err)
		}
	})
}

func TestWatchEndsQuietly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil)
		b.fleet.On(node1, configure, fake.Slow(5*time.Second))
		w, end := watch(t, b)
		synctest.Wait()
		w.event(node1)
		time.Sleep(time.Second)
		end() // in the middle of configure: the restart still comes
		if diff := cmp.Diff([]string{inventory, configure, restart}, w.fleet.Actions(node1)); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
	})
}

// TestAFloodOfEventsDelaysNoRealNodeForLong announces many nodes that do not
// exist, and then one that does.
func TestAFloodOfEventsDelaysNoRealNodeForLong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil)
		there := func(_ context.Context, _ int, ok func() provision.Reply) ([]provision.Reply, error) {
			return []provision.Reply{ok()}, nil
		}
		b.fleet.On("", inventory, fake.Silent).On(node1, inventory, there)
		w, end := watch(t, b)
		defer end()
		synctest.Wait()
		for i := range 20_000 {
			w.event(fmt.Sprintf("made-up-%d.example.net", i))
		}
		began := time.Now()
		w.event(node1)
		w.present.Store(&[]string{node1})
		configured := func() bool { _, times := w.fleet.Configured(node1); return times == 1 }
		for !configured() && time.Since(began) < time.Hour {
			time.Sleep(time.Second)
			synctest.Wait()
		}
		if took, most := time.Since(began), w.Config.Interval.Duration/4+5*time.Second; took > most {
			t.Errorf("the real node was configured after %s, want at most %s", took, most)
		}
	})
}
