package provision_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"choria-provision/internal/fake"
	"choria-provision/provision"
	"choria-provision/provision/installstate"

	"github.com/google/go-cmp/cmp"
)

const ping = "rpcutil#ping"

func TestHoldBeginsBeforeTheRestartIsAskedFor(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	b.fleet.On(node1, restart, func(_ context.Context, _ int, ok func() provision.Reply) ([]provision.Reply, error) {
		record, err := b.Store.Load(node1)
		if err != nil || record.Phase != installstate.Installing || record.RestartRequested.IsZero() || !record.Held(time.Now()) {
			t.Errorf("got %+v, %v when the restart is asked for, want installing, held and asked", record, err)
		}
		return []provision.Reply{ok()}, nil
	})
	b.run(t.Context(), node1)
	record, err := b.Store.Load(node1)
	if err != nil || record.Phase != installstate.Complete || !record.RestartRequested.IsZero() || !record.Held(time.Now()) {
		t.Errorf("got %+v, %v in the end, want complete and held", record, err)
	}
}

func TestRestartThatMayBeUnderWayStaysNoted(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		script fake.Script
		want   bool
	}{
		{"refused", fake.Refusing("no"), false},
		{"no answer", fake.Silent, true},
		{"gone", gone, true},
		{"no answer, then refused", func(ctx context.Context, number int, ok func() provision.Reply) ([]provision.Reply, error) {
			if number == 1 {
				return nil, provision.ErrNoReply
			}
			return fake.Refusing("no")(ctx, number, ok)
		}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, nil)
				b.fleet.On(node1, restart, tt.script)
				if got := resultOf(t, b.run(t.Context(), node1), node1); got.Outcome != provision.Failed {
					t.Fatalf("got %s, want failed", got.Outcome)
				}
				record, err := b.Store.Load(node1)
				if noted := !record.RestartRequested.IsZero(); err != nil || noted != tt.want || record.HoldUntil.IsZero() == tt.want {
					t.Errorf("got %+v, %v, want noted and held %v", record, err, tt.want)
				}
			})
		})
	}
}

func TestPauseBeforeTheRestartLeavesTheNodeToTheNextRun(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	paused := false
	b.May = func() error {
		if paused {
			return provision.ErrPaused
		}
		return nil
	}
	b.fleet.On(node1, configure, ending(func() { paused = true }))
	b.run(t.Context(), node1)
	record, err := b.Store.Load(node1)
	if err != nil || record.Phase != installstate.Installing || !record.RestartRequested.IsZero() || record.Held(time.Now()) {
		t.Errorf("got %+v, %v, want installing and neither asked nor held", record, err)
	}
}

func TestSettle(t *testing.T) {
	t.Parallel()
	silent := func(context.Context, int, func() provision.Reply) ([]provision.Reply, error) {
		return nil, provision.ErrNoReply
	}
	tests := []struct {
		name   string
		asked  bool
		site   string
		locked bool
		script fake.Script
		want   installstate.Phase
		pinged bool
	}{
		{"a node that has left is complete", true, "site", false, gone, installstate.Complete, true},
		{"one that is still there is left to a run", true, "site", false, fake.Refusing("no"), installstate.Installing, true},
		{"one that says nothing as well", true, "site", false, silent, installstate.Installing, true},
		{"one that was not asked may be anywhere", false, "site", false, gone, installstate.Installing, false},
		{"another site's is not ours", true, "another site", false, gone, installstate.Installing, false},
		{"one that is being worked on", true, "site", true, gone, installstate.Installing, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, nil)
			record := installstate.NewRecord(node1, installstate.Fingerprint([]byte(tt.site)))
			if err := b.Store.Save(record); err != nil {
				t.Fatal(err)
			}
			if tt.asked {
				noteRestart(t, b.Store, record)
			}
			if tt.locked {
				lock, err := b.Store.AcquireLock(node1)
				if err != nil {
					t.Fatal(err)
				}
				defer lock.Release()
			}
			b.fleet.On(node1, ping, tt.script)
			b.Settle(t.Context(), t.Context())
			after, err := b.Store.Load(node1)
			if err != nil || after.Phase != tt.want || after.InstallationID != record.InstallationID {
				t.Errorf("got %+v, %v, want %s", after, err, tt.want)
			}
			if pinged := len(b.fleet.Actions(node1)) > 0; pinged != tt.pinged {
				t.Errorf("got calls %v, want any: %v", b.fleet.Actions(node1), tt.pinged)
			}
			want := 0
			if tt.want == installstate.Complete {
				want = 1
			}
			if len(b.events) != want {
				t.Errorf("got events %+v, want %d", b.events, want)
			}
		})
	}
}

// noteRestart leaves what a run leaves that ends before it hears the answer.
func noteRestart(t *testing.T, store *installstate.Store, record installstate.Record) {
	t.Helper()
	lock, err := store.AcquireLock(record.Identity)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Release()
	record.RestartRequested = time.Now()
	if err := store.Save(record); err != nil {
		t.Fatal(err)
	}
}

func TestSettleCallsNobodyAfterAStop(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	record := installstate.NewRecord(node1, b.Fingerprint)
	if err := b.Store.Save(record); err != nil {
		t.Fatal(err)
	}
	noteRestart(t, b.Store, record)
	stop, end := context.WithCancel(t.Context())
	end()
	b.Settle(t.Context(), stop)
	if diff := cmp.Diff([]string(nil), b.fleet.Actions(node1)); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	if err := b.StateErr(); err != nil {
		t.Errorf("got %v, want no state error", errors.Unwrap(err))
	}
}
