package provision_test

import (
	"context"
	"errors"
	"slices"
	"sync"
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

// link is a connection to a broker as a run sees it.
type link struct {
	mu    sync.Mutex
	lost  bool // for good
	waits int  // how often a step that completes a change waited for it
}

func (l *link) connected(_ context.Context, finishing bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if finishing {
		l.waits++
	}
	if l.lost {
		return provision.ErrNetwork
	}
	return nil
}

// unsent fails the first requests as a connection that is lost does.
func unsent(times int) fake.Script {
	return func(_ context.Context, number int, ok func() provision.Reply) ([]provision.Reply, error) {
		if number <= times {
			return nil, provision.ErrNetwork
		}
		return []provision.Reply{ok()}, nil
	}
}

func TestARequestThatWasNotSentIsNoAttempt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil)
		b.Connected = new(link).connected
		b.fleet.On(node1, configure, unsent(20)).On(node1, restart, unsent(20))
		started := time.Now()
		got := resultOf(t, b.run(t.Context(), node1), node1)
		if got.Outcome != provision.Provisioned || got.Attempts != 3 {
			t.Errorf("got %s (%v) after %d attempts, want provisioned after 3", got.Outcome, got.Err, got.Attempts)
		}
		if took := time.Since(started); took != 0 {
			t.Errorf("rested for %s between requests that were not sent", took)
		}
	})
}

// A node that has not come back after an outage must not pass for one that
// restarts: the request was never sent.
func TestANodeThatIsGoneAfterAnOutageDidNotRestart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil)
		b.Connected = new(link).connected
		b.fleet.On(node1, restart, func(_ context.Context, number int, _ func() provision.Reply) ([]provision.Reply, error) {
			if number == 1 {
				return nil, provision.ErrNetwork
			}
			return nil, provision.ErrGone
		})
		if got := resultOf(t, b.run(t.Context(), node1), node1); got.Outcome != provision.Failed || !errors.Is(got.Err, provision.ErrGone) {
			t.Errorf("got %s (%v), want failed since it is gone", got.Outcome, got.Err)
		}
	})
}

// A node whose reply to configure is lost may have its configuration: it is owed
// its restart as one is that is known to.
func TestANodeThatMayBeConfiguredIsOwedItsRestart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil)
		l := new(link)
		b.Connected = l.connected
		b.fleet.On(node1, configure, func(_ context.Context, number int, ok func() provision.Reply) ([]provision.Reply, error) {
			switch {
			case number == 1:
				return nil, provision.ErrNoReply
			case l.waits != 1:
				t.Errorf("got %d patient waits before attempt %d, want one", l.waits, number)
			}
			return []provision.Reply{ok()}, nil
		})
		got := resultOf(t, b.run(t.Context(), node1), node1)
		if got.Outcome != provision.Provisioned || l.waits != 2 { // the other one is restart's
			t.Errorf("got %s (%v) after %d patient waits, want provisioned after two", got.Outcome, got.Err, l.waits)
		}
	})
}

func TestABrokerThatStaysAwayEndsTheRun(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		during  string
		calls   []string
		phase   installstate.Phase
		waits   int
		started bool // the restart may be under way, for all the run knows
	}{
		{"before the first change", inventory, []string{inventory}, installstate.Installing, 0, false},
		{"before the restart", configure, []string{inventory, configure}, installstate.Installing, 1, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, func(c *config.Config) { c.Workers = 1 })
			l, lost := &link{}, make(chan struct{})
			b.Connected = l.connected
			b.fleet.On(node1, tt.during, ending(func() {
				l.mu.Lock()
				defer l.mu.Unlock()
				l.lost = true
				close(lost)
			}))
			for _, name := range []string{"n2", "n3"} { // called beside the first, and answered when the broker is gone
				b.fleet.On(name, inventory, func(_ context.Context, _ int, ok func() provision.Reply) ([]provision.Reply, error) {
					<-lost
					return []provision.Reply{ok()}, nil
				})
			}
			now := time.Now()
			sum := b.Run(t.Context(), t.Context(), []discovery.Sighting{{Identity: node1, Seen: now}, {Identity: "n2", Seen: now}, {Identity: "n3", Seen: now}})
			if !errors.Is(sum.StateErr, provision.ErrNetwork) || !sum.Interrupted {
				t.Errorf("got %+v, want an interrupted run and the cause", sum)
			}
			for _, result := range sum.Results {
				if result.Outcome != provision.Skipped || result.Node != node1 && slices.Contains(b.fleet.Actions(result.Node), configure) {
					t.Errorf("got %+v, want every node skipped and no other one configured", result)
				}
			}
			got := resultOf(t, sum, node1)
			if got.Outcome != provision.Skipped || !errors.Is(got.Err, provision.ErrNetwork) {
				t.Errorf("got %s (%v), want skipped: the node did nothing wrong", got.Outcome, got.Err)
			}
			if diff := cmp.Diff(tt.calls, b.fleet.Actions(node1)); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
			record, _ := b.Store.Load(node1)
			if record.Phase != tt.phase || record.RestartRequested.IsZero() == tt.started {
				t.Errorf("got %+v, want phase %q", record, tt.phase)
			}
			if l.waits != tt.waits {
				t.Errorf("got %d waits for the restart, want %d", l.waits, tt.waits)
			}
		})
	}
}
