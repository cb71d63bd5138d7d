package provision_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"choria-provision/config"
	"choria-provision/discovery"
	"choria-provision/internal/fake"
	"choria-provision/provision"
)

// lastDone is when the last of the named nodes was done, from start on.
func (b *bench) lastDone(names []string, start time.Time) (last time.Duration) {
	wanted := map[string]bool{}
	for _, name := range names {
		wanted[name] = true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, event := range b.events {
		if done, ok := event.(provision.NodeDone); ok && wanted[done.Node] {
			last = max(last, done.Started.Add(done.Took).Sub(start))
		}
	}
	return last
}

func named(prefix string, count int) (names []string) {
	for i := range count {
		names = append(names, fmt.Sprintf("%s%d.example.net", prefix, i))
	}
	return names
}

// slowFleet answers every action after a while, and the dead do not.
func (b *bench) slowFleet(takes time.Duration, dead ...string) {
	for _, action := range []string{jwt, inventory, configure, restart} {
		b.fleet.On("", action, fake.Slow(takes))
		for _, name := range dead {
			b.fleet.On(name, action, fake.Silent)
		}
	}
}

func TestDeadNodesDoNotCostTheLiving(t *testing.T) {
	t.Parallel()
	live, dead := named("live", 100), named("dead", 100)
	mixed := make([]string, 0, 200)
	for i := range live {
		mixed = append(mixed, dead[i], live[i])
	}
	tests := []struct {
		name  string
		takes time.Duration
		order []string
		alone time.Duration // the live ones
	}{
		// the first calls of others are answered while workers are at work
		{"mixed", 10 * time.Millisecond, mixed, 310 * time.Millisecond},
		{"the dead first", 10 * time.Millisecond, slices.Concat(dead, live), 310 * time.Millisecond},
		{"mixed, a fast fleet", 2 * time.Millisecond, mixed, 62 * time.Millisecond},
		{"mixed, a slow fleet", 400 * time.Millisecond, mixed, 12400 * time.Millisecond},
		{"the dead first, a slow fleet", 400 * time.Millisecond, slices.Concat(dead, live), 12400 * time.Millisecond},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			took := func(order []string) (last time.Duration) {
				synctest.Test(t, func(t *testing.T) {
					b := newBench(t, func(c *config.Config) { c.Features.JWT, c.Workers = true, 10 })
					b.slowFleet(tt.takes, dead...)
					start := time.Now()
					sum := b.run(t.Context(), order...)
					last = b.lastDone(live, start)
					for _, name := range live {
						if got := resultOf(t, sum, name); got.Outcome != provision.Provisioned {
							t.Errorf("%s: got %s (%v), want provisioned", name, got.Outcome, got.Err)
						}
					}
				})
				return last
			}
			alone, beside := took(live), took(tt.order)
			if alone != tt.alone {
				t.Errorf("took %s alone, want %s", alone, tt.alone)
			}
			t.Logf("%s alone, %s beside the dead", alone, beside)
			if beside > alone*3/2 {
				t.Errorf("took %s beside the dead and %s alone, want no more than 1.5 times", beside, alone)
			}
		})
	}
}

// Nodes that the broker knows to be gone occupy no worker between attempts.
func TestGoneNodesOccupyNoWorkerInTheirBackoff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, func(c *config.Config) { c.Workers = 1 })
		b.fleet.On("gone", inventory, func(context.Context, int, func() provision.Reply) ([]provision.Reply, error) {
			return nil, provision.ErrGone
		})
		start := time.Now()
		sum := b.run(t.Context(), "gone", node1)
		if got := b.lastDone([]string{node1}, start); got != 0 {
			t.Errorf("the other node took %s, want no time", got)
		}
		if got := resultOf(t, sum, "gone"); !errors.Is(got.Err, provision.ErrGone) || got.Attempts != 5 {
			t.Errorf("got %v after %d attempts, want gone after 5", got.Err, got.Attempts)
		}
	})
}

func TestHelperWorkersBoundsHelpersApartFromWorkers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, func(c *config.Config) { c.Workers, c.HelperWorkers = 5, 2 })
		b.fleet.On("", inventory, fake.FailingFirst(1))
		var asked most
		b.Helper = helperFunc(func(ctx context.Context, in provision.HelperInput) (provision.Answer, error) {
			defer asked.enter()()
			time.Sleep(time.Second)
			return obliging(ctx, in)
		})
		start := time.Now()
		b.run(t.Context(), named("n", 40)...)
		if got := asked.seen.Load(); got != 2 {
			t.Errorf("got %d helpers at once, want 2", got)
		}
		if took := time.Since(start); took < 20*time.Second || took > 22*time.Second {
			t.Errorf("took %s, want the 20 s of the helpers and one rest before", took)
		}
	})
}

// most counts who is there and remembers the most.
type most struct{ now, seen atomic.Int32 }

func (m *most) enter() (leave func()) {
	now := m.now.Add(1)
	for seen := m.seen.Load(); now > seen && !m.seen.CompareAndSwap(seen, now); seen = m.seen.Load() {
	}
	return func() { m.now.Add(-1) }
}

// Of two nodes the one that answers first has the only worker, and the other one
// waits until it is free.
func TestEndingsWhileWaitingForAWorker(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		end   func(cancelStop, cancelCtx context.CancelFunc, pause func())
		after time.Duration
		cause error
	}{
		{"stop", func(stop, _ context.CancelFunc, _ func()) { stop() }, 30 * time.Second, provision.ErrStopped},
		{"the end of all work", func(stop, ctx context.CancelFunc, _ func()) { stop(); ctx() }, 30 * time.Second, provision.ErrStopped},
		{"a pause", func(_, _ context.CancelFunc, pause func()) { pause() }, time.Hour, provision.ErrPaused},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := patient(t)
				b.Config.Workers = 1
				ctx, cancelCtx := context.WithCancel(t.Context())
				defer cancelCtx()
				stop, cancelStop := context.WithCancel(t.Context())
				defer cancelStop()
				var paused atomic.Bool
				b.May = func() error {
					if paused.Load() {
						return provision.ErrPaused
					}
					return nil
				}
				b.fleet.On(node1, inventory, fake.Slow(time.Second))
				busy := make(chan struct{})
				b.fleet.On("n2", inventory, func(ctx context.Context, _ int, ok func() provision.Reply) ([]provision.Reply, error) {
					return []provision.Reply{ok()}, nil
				})
				b.Helper = helperFunc(func(ctx context.Context, _ provision.HelperInput) (provision.Answer, error) {
					defer close(busy)
					select { // keeps the only worker
					case <-time.After(time.Hour):
					case <-ctx.Done():
					}
					return provision.Answer{}, ctx.Err()
				})
				time.AfterFunc(30*time.Second, func() { tt.end(cancelStop, cancelCtx, func() { paused.Store(true) }) })
				now := time.Now()
				sum := b.Run(ctx, stop, []discovery.Sighting{{Identity: node1, Seen: now}, {Identity: "n2", Seen: now}})
				<-busy
				if got := resultOf(t, sum, node1); got.Outcome != provision.Skipped || !errors.Is(got.Err, tt.cause) {
					t.Errorf("got %s (%v), want skipped: %v", got.Outcome, got.Err, tt.cause)
				}
				if took := b.lastDone([]string{node1}, now); took != tt.after {
					t.Errorf("done after %s, want %s", took, tt.after)
				}
				if calls := b.fleet.Actions(node1); len(calls) != 1 {
					t.Errorf("got calls %v, want the inventory alone", calls)
				}
			})
		})
	}
}
