package provision_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"choria-provision/config"
	"choria-provision/discovery"
	"choria-provision/internal/fake"
	"choria-provision/provision"
	"choria-provision/provision/installstate"

	"github.com/google/go-cmp/cmp"
)

// soon is later than all first calls that have a place at the start, and too soon
// for others.
const soon = 10 * time.Millisecond

// ending answers soon, like the node, and then ends something.
func ending(end func()) fake.Script {
	return func(_ context.Context, _ int, ok func() provision.Reply) ([]provision.Reply, error) {
		defer end()
		time.Sleep(soon)
		return []provision.Reply{ok()}, nil
	}
}

func TestStop(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		during  string
		want    []string
		outcome provision.Outcome
		phase   installstate.Phase
	}{
		{"before the first change", inventory, []string{jwt, inventory}, provision.Skipped, ""},
		{"after configure the restart still comes", configure, []string{jwt, inventory, configure, restart}, provision.Provisioned, installstate.Complete},
		{"during restart", restart, []string{jwt, inventory, configure, restart}, provision.Provisioned, installstate.Complete},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, func(c *config.Config) { c.Features.JWT, c.Workers = true, 1 })
				stop, end := context.WithCancel(t.Context())
				b.fleet.On(node1, tt.during, ending(end))
				b.fleet.On("", jwt, fake.Slow(time.Second)).On(node1, jwt, fake.Slow(0))
				var seen []discovery.Sighting
				for _, name := range []string{node1, "n2", "n3", "n4", "n5", "n6"} { // four are called at the start
					seen = append(seen, discovery.Sighting{Identity: name, Seen: time.Now()})
				}
				sum := b.Run(t.Context(), stop, seen)
				if diff := cmp.Diff(tt.want, b.fleet.Actions(node1)); diff != "" {
					t.Errorf("calls (-want +got):\n%s", diff)
				}
				if got := resultOf(t, sum, node1); got.Outcome != tt.outcome {
					t.Errorf("got %s (%v), want %s", got.Outcome, got.Err, tt.outcome)
				}
				if record, _ := b.Store.Load(node1); record.Phase != tt.phase {
					t.Errorf("got phase %q, want %q", record.Phase, tt.phase)
				}
				for _, name := range []string{"n2", "n3", "n4"} { // in flight: they are heard and no more
					got, calls := resultOf(t, sum, name), b.fleet.Actions(name)
					if got.Outcome != provision.Skipped || !errors.Is(got.Err, provision.ErrStopped) || len(calls) != 1 {
						t.Errorf("%s: got %s (%v) after %v, want skipped as stopped after its first call", name, got.Outcome, got.Err, calls)
					}
				}
				if calls := append(b.fleet.Actions("n5"), b.fleet.Actions("n6")...); calls != nil || sum.Unhandled != 2 || !sum.Interrupted {
					t.Errorf("got calls %v and %+v, want the last two nodes not started", calls, sum)
				}
			})
		})
	}
}

func TestStopMakesNoFurtherAttempt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil)
		stop, end := context.WithCancel(t.Context())
		b.fleet.On(node1, inventory, func(context.Context, int, func() provision.Reply) ([]provision.Reply, error) {
			end()
			return nil, provision.ErrNoReply
		})
		started := time.Now()
		got := resultOf(t, b.Run(t.Context(), stop, []discovery.Sighting{{Identity: node1, Seen: started}}), node1)
		if calls := b.fleet.Actions(node1); len(calls) != 1 {
			t.Errorf("got %v, want one attempt", calls)
		}
		if !errors.Is(got.Err, provision.ErrStopped) || !errors.Is(got.Err, provision.ErrNoReply) {
			t.Errorf("got %v, want the stop and the last attempt's error", got.Err)
		}
		if waited := time.Since(started); waited != 0 {
			t.Errorf("waited %s after the stop, want no rest between attempts", waited)
		}
	})
}

func TestStopEndsTheHelper(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil)
		stop, end := context.WithCancel(t.Context())
		b.Helper = helperFunc(func(ctx context.Context, _ provision.HelperInput) (provision.Answer, error) {
			end()
			<-ctx.Done()
			return provision.Answer{}, ctx.Err()
		})
		got := resultOf(t, b.Run(t.Context(), stop, []discovery.Sighting{{Identity: node1, Seen: time.Now()}}), node1)
		if got.Outcome != provision.Skipped || !errors.Is(got.Err, provision.ErrStopped) || errors.Is(got.Err, context.Canceled) {
			t.Errorf("got %s (%v), want skipped as stopped", got.Outcome, got.Err)
		}
	})
}

func TestTheEndOfTimeCutsAnAttempt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil)
		b.fleet.On("", inventory, fake.Silent)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		started := time.Now()
		sum := b.Run(ctx, ctx, []discovery.Sighting{{Identity: node1, Seen: started}})
		if took := time.Since(started); took != time.Second {
			t.Errorf("took %s, want exactly the second given", took)
		}
		if !sum.Interrupted {
			t.Errorf("got %+v, want an interrupted run", sum)
		}
	})
}

// pausable gives the bench a pause flag.
func pausable(b *bench) *atomic.Bool {
	var paused atomic.Bool
	b.May = func() error {
		if paused.Load() {
			return provision.ErrPaused
		}
		return nil
	}
	return &paused
}

func TestPauseIsSeenBeforeEveryAttempt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, func(c *config.Config) { c.Workers = 1 })
		paused := pausable(b)
		b.fleet.On(node1, configure, func(context.Context, int, func() provision.Reply) ([]provision.Reply, error) {
			time.Sleep(soon)
			paused.Store(true)
			return []provision.Reply{{Message: "try again"}}, nil
		})
		b.fleet.On("n2", inventory, fake.Slow(time.Second))
		sum := b.run(t.Context(), node1, "n2")
		got := resultOf(t, sum, node1)
		if diff := cmp.Diff([]string{inventory, configure}, b.fleet.Actions(node1)); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
		if got.Outcome != provision.Skipped || !errors.Is(got.Err, provision.ErrPaused) || !errors.Is(got.Err, provision.ErrRefused) {
			t.Errorf("got %s (%v), want skipped as paused with the refusal", got.Outcome, got.Err)
		}
		if second := resultOf(t, sum, "n2"); second.Outcome != provision.Skipped || !errors.Is(second.Err, provision.ErrPaused) || second.Attempts != 1 {
			t.Errorf("the second node, in flight at the pause: got %s (%v) after %d attempts, want skipped as paused after the first", second.Outcome, second.Err, second.Attempts)
		}
	})
}

func TestPauseKeepsTheHelperFromStarting(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	paused := pausable(b)
	b.fleet.On(node1, inventory, ending(func() { paused.Store(true) }))
	b.Helper = helperFunc(func(context.Context, provision.HelperInput) (provision.Answer, error) {
		t.Error("the helper was started while paused")
		return provision.Answer{}, nil
	})
	if got := resultOf(t, b.run(t.Context(), node1), node1); !errors.Is(got.Err, provision.ErrPaused) {
		t.Errorf("got %v, want paused", got.Err)
	}
}

func TestPauseBeginsNoRecord(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	paused := pausable(b)
	helper := b.Helper
	b.Helper = helperFunc(func(ctx context.Context, in provision.HelperInput) (provision.Answer, error) {
		paused.Store(true)
		return helper.Answer(ctx, in)
	})
	if got := resultOf(t, b.run(t.Context(), node1), node1); !errors.Is(got.Err, provision.ErrPaused) {
		t.Errorf("got %v, want paused", got.Err)
	}
	if _, err := b.Store.Load(node1); !errors.Is(err, installstate.ErrNotFound) {
		t.Errorf("got %v, want no record of a node that nothing was done to", err)
	}
	if diff := cmp.Diff([]string{inventory}, b.fleet.Actions(node1)); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

// What others see of a run is over with a pause or another leader: calls, the
// helper, the record, and the note of a restart, which shows in the record.
func TestNothingChangesAfterAPauseBetweenSteps(t *testing.T) {
	t.Parallel()
	issuer := func(c *config.Config) { c.Features.JWT, c.Features.ED25519 = true, true }
	pki := func(c *config.Config) { c.Features.JWT, c.Features.PKI = true, true }
	upgrades := func(c *config.Config) { c.Features.JWT, c.Features.Upgrades = true, true }
	after := []struct {
		step   string
		config func(*config.Config)
	}{
		{"age", issuer}, {"jwt", issuer}, {"verify jwt", issuer}, {"ed25519", issuer}, {"inventory", issuer},
		{"csr", pki}, {"verify csr", pki},
		{"helper", upgrades}, {"encrypt key", upgrades}, {"upgrade", upgrades}, {"configure", upgrades},
	}
	for _, tt := range after {
		for _, cause := range []error{provision.ErrPaused, provision.ErrNotLeader} {
			t.Run(tt.step+", "+cause.Error(), func(t *testing.T) {
				t.Parallel()
				pauseAfter(t, newBench(t, tt.config), tt.step, cause)
			})
		}
	}
}

func pauseAfter(t *testing.T, b *bench, step string, cause error) {
	t.Helper()
	var paused bool
	var calls []string
	var before installstate.Record
	b.Tell = func(event any) {
		if done, ok := event.(provision.StepDone); ok && done.Step == step {
			paused, calls = true, b.fleet.Actions(node1)
			before, _ = b.Store.Load(node1)
		}
	}
	unchanged := func(when string) {
		if record, _ := b.Store.Load(node1); record != before {
			t.Errorf("got the record %+v %s, want it as it was: %+v", record, when, before)
		}
	}
	b.May = func() error {
		if !paused {
			return nil
		}
		unchanged("when the pause was seen")
		return cause
	}
	b.Helper = helperFunc(func(ctx context.Context, in provision.HelperInput) (provision.Answer, error) {
		if paused {
			t.Error("the helper was started")
		}
		return obliging(ctx, in)
	})
	got := resultOf(t, b.run(t.Context(), node1), node1)
	if !paused || got.Outcome != provision.Skipped || !errors.Is(got.Err, cause) {
		t.Errorf("got %s (%v), want skipped after %q: %v", got.Outcome, got.Err, step, cause)
	}
	if diff := cmp.Diff(calls, b.fleet.Actions(node1)); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	unchanged("at the end")
}

func TestANodeOfAnEarlierTermIsNotGoneOnWith(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil)
		var term atomic.Int32
		b.Term = func() any { return term.Load() }
		b.fleet.On(node1, inventory, ending(func() { term.Add(1) })) // lost and won again meanwhile
		got := resultOf(t, b.run(t.Context(), node1), node1)
		if got.Outcome != provision.Skipped || !errors.Is(got.Err, provision.ErrNotLeader) {
			t.Errorf("got %s (%v), want skipped: another instance may have worked on it", got.Outcome, got.Err)
		}
		if calls := b.fleet.Actions(node1); len(calls) != 1 {
			t.Errorf("got %v, want no call after the inventory", calls)
		}
	})
}
