package provision_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"choria-provision/config"
	"choria-provision/internal/fake"
	"choria-provision/provision"
)

// survey asks nodes with one worker and returns how long that took.
func (b *bench) survey(ctx context.Context, identities ...string) ([]provision.Inventory, time.Duration) {
	b.Config.Workers = 1
	start := time.Now()
	found := provision.Survey{RPC: b.fleet, Config: b.Config, Tell: b.observe}.Inventories(ctx, identities)
	return found, time.Since(start)
}

func TestASurveyWaitsForNodesAllAtOnce(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		count  int
		script fake.Script
		cause  error
		longer time.Duration // than what one of them takes, whose backoff is drawn anew
	}{
		{"refusing", 20, fake.Refusing("not now"), provision.ErrRefused, 5 * time.Second},
		{"silent", 3, fake.Silent, provision.ErrNoReply, 5 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, nil)
				b.fleet.On("", inventory, tt.script).On(node1, inventory, fake.Slow(0))
				_, one := b.survey(t.Context(), "alone")
				found, took := b.survey(t.Context(), append(named("x", tt.count), node1)...)
				if took > one+tt.longer {
					t.Errorf("took %s, want little more than the %s of a single node", took, one)
				}
				for _, f := range found[:tt.count] {
					if !errors.Is(f.Err, tt.cause) {
						t.Errorf("got %v, want %v", f.Err, tt.cause)
					}
				}
				if last := found[tt.count]; last.Err != nil || last.Version != "0.29.4" {
					t.Errorf("got %+v of the node that answers, want its version", last)
				}
			})
		})
	}
}

func TestASurveyThatIsStoppedSaysSoOfTheNodesThatWereLeft(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, func(c *config.Config) { c.RPCTimeout.Duration = time.Second })
		ctx, end := context.WithCancel(t.Context())
		var asked atomic.Int32
		b.fleet.On("", inventory, func(ctx context.Context, n int, ok func() provision.Reply) ([]provision.Reply, error) {
			if asked.Add(1) == 4 {
				end()
			}
			return fake.Silent(ctx, n, ok)
		})
		found, took := b.survey(ctx, named("n", 9)...)
		for i, f := range found {
			if !errors.Is(f.Err, provision.ErrStopped) {
				t.Errorf("node %d: got %v, want stopped", i, f.Err)
			}
		}
		if took != 0 {
			t.Errorf("went on for %s, want it to end at once", took)
		}
		if got := len(b.fleet.Calls()); got != 4 {
			t.Errorf("got %d calls, want the 4 that were made before the stop", got)
		}
	})
}
