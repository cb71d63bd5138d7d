package provision_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"choria-provision/discovery"
	"choria-provision/internal/fake"
	"choria-provision/provision"
	"choria-provision/provision/installstate"

	"github.com/google/go-cmp/cmp"
)

// A run whose only node was cut off is interrupted, although no node was left
// unstarted: its exit code must tell a script that there is more to do.
func TestANodeThatWasCutOffInterruptsTheRun(t *testing.T) {
	t.Parallel()
	for _, cause := range []error{provision.ErrNotLeader, provision.ErrPaused, provision.ErrStopped, provision.ErrNetwork} {
		t.Run(cause.Error(), func(t *testing.T) {
			t.Parallel()
			b := newBench(t, nil)
			over := false
			b.May = func() error {
				if over {
					return cause
				}
				return nil
			}
			b.fleet.On(node1, inventory, func(_ context.Context, _ int, ok func() provision.Reply) ([]provision.Reply, error) {
				over = true
				return []provision.Reply{ok()}, nil
			})
			sum := b.run(t.Context(), node1)
			if got := resultOf(t, sum, node1); got.Outcome != provision.Skipped || !errors.Is(got.Err, cause) {
				t.Errorf("got %s (%v), want skipped: %v", got.Outcome, got.Err, cause)
			}
			if !sum.Interrupted || sum.Unhandled != 0 {
				t.Errorf("got interrupted %v with %d nodes not started, want interrupted by this node alone", sum.Interrupted, sum.Unhandled)
			}
		})
	}
}

// Skips that say nothing of the run itself leave it as complete as it is.
func TestANodeThatIsNotOursInterruptsNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	lock, err := b.Store.AcquireLock(node1)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Release()
	sum := b.run(t.Context(), node1)
	if got := resultOf(t, sum, node1); got.Outcome != provision.Skipped || !errors.Is(got.Err, provision.ErrLocked) || sum.Interrupted {
		t.Errorf("got %s (%v), interrupted %v, want skipped as locked in a run that went through", got.Outcome, got.Err, sum.Interrupted)
	}
}

// The stop may come while a node is being claimed: the claim ends, and neither
// the node nor its record has heard of the run.
func TestAClaimAfterAStopSendsNothing(t *testing.T) {
	t.Parallel()
	for _, action := range []string{inventory, jwt} {
		t.Run(action, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, nil)
			b.Config.Features.JWT = action == jwt
			stop, end := context.WithCancel(t.Context())
			b.Tell = func(event any) {
				if _, ok := event.(provision.NodeStarted); ok {
					end()
				}
			}
			sum := b.Run(t.Context(), stop, []discovery.Sighting{{Identity: node1, Seen: time.Now()}})
			if diff := cmp.Diff([]string(nil), b.fleet.Actions(node1)); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
			if got := resultOf(t, sum, node1); got.Outcome != provision.Skipped || !errors.Is(got.Err, provision.ErrStopped) {
				t.Errorf("got %s (%v), want skipped as stopped", got.Outcome, got.Err)
			}
			if _, err := b.Store.Load(node1); !errors.Is(err, installstate.ErrNotFound) {
				t.Errorf("got %v, want no record", err)
			}
			lock, err := b.Store.AcquireLock(node1)
			if err != nil {
				t.Fatalf("got %v, want the node free again", err)
			}
			lock.Release()
		})
	}
}

// held leaves a record of a node in progress that is held for a while yet.
func held(t *testing.T, b *bench) installstate.Record {
	t.Helper()
	lock, err := b.Store.AcquireLock(node1)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Release()
	record := installstate.NewRecord(node1, b.Fingerprint)
	record.HoldUntil = time.Now().Add(time.Hour).UTC().Round(0)
	if err := b.Store.Save(record); err != nil {
		t.Fatal(err)
	}
	return record
}

// Force goes past a hold and ends it, even when the node fails afterwards: the
// next run must not skip a node that the operator asked for.
func TestForceEndsAHold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil)
		before := held(t, b)
		b.fleet.On(node1, configure, fake.Refusing("no"))
		if got := resultOf(t, b.run(t.Context(), node1), node1); got.Outcome != provision.Skipped || !errors.Is(got.Err, provision.ErrHeld) {
			t.Fatalf("got %s (%v) without force, want skipped as held", got.Outcome, got.Err)
		}
		if record, err := b.Store.Load(node1); err != nil || !record.HoldUntil.Equal(before.HoldUntil) {
			t.Errorf("got held until %s, %v after a skip, want %s", record.HoldUntil, err, before.HoldUntil)
		}
		b.Force = true
		if got := resultOf(t, b.run(t.Context(), node1), node1); got.Outcome != provision.Failed || !errors.Is(got.Err, provision.ErrRefused) {
			t.Fatalf("got %s (%v) by force, want failed: the node refuses", got.Outcome, got.Err)
		}
		if record, err := b.Store.Load(node1); err != nil || !record.HoldUntil.IsZero() || record.InstallationID != before.InstallationID {
			t.Errorf("got %+v, %v, want the same installation without a hold", record, err)
		}
		b.Force = false
		if got := resultOf(t, b.run(t.Context(), node1), node1); errors.Is(got.Err, provision.ErrHeld) {
			t.Errorf("got %v in the next run, want no hold", got.Err)
		}
	})
}

// A dry run plans what force would do, and ends no hold.
func TestADryRunByForceLeavesTheHold(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	before := held(t, b)
	b.DryRun, b.Force = provision.DryRun{On: true}, true
	if got := resultOf(t, b.run(t.Context(), node1), node1); got.Outcome != provision.Planned {
		t.Errorf("got %s (%v), want planned", got.Outcome, got.Err)
	}
	if after, err := b.Store.Load(node1); err != nil || !after.HoldUntil.Equal(before.HoldUntil) {
		t.Errorf("got %+v, %v, want the record as it was: %+v", after, err, before)
	}
}
