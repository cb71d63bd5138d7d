package provision_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"choria-provision/discovery"
	"choria-provision/provision"
)

// TestANodeThatWasNamedAndIsInServiceIsNoFailure also holds that a node which was
// seen to wait, or which has no record, is one when it is not there.
func TestANodeThatWasNamedAndIsInServiceIsNoFailure(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil)
		if got := resultOf(t, b.run(t.Context(), node1), node1); got.Outcome != provision.Provisioned {
			t.Fatalf("got %s (%v), want provisioned", got.Outcome, got.Err)
		}
		record, err := b.Store.Load(node1)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		b.fleet.On("", jwt, gone).On("", inventory, gone)
		for _, tt := range []struct {
			node    string
			source  discovery.Source
			outcome provision.Outcome
			cause   error
			text    string
		}{
			{node1, discovery.ByName, provision.Skipped, provision.ErrInService, "the node is in service since " + record.Completed.Local().Format(time.DateTime) + " by its record"},
			{node1, discovery.ByBroadcast, provision.Failed, provision.ErrGone, "not connected"},
			{"other.example.net", discovery.ByName, provision.Failed, provision.ErrGone, "not connected"},
		} {
			sum := b.Run(t.Context(), t.Context(), []discovery.Sighting{{Identity: tt.node, Seen: time.Now(), Source: tt.source}})
			got := resultOf(t, sum, tt.node)
			if got.Outcome != tt.outcome || !errors.Is(got.Err, tt.cause) || !strings.Contains(got.Err.Error(), tt.text) {
				t.Errorf("%s by %s: got %s (%v), want %s and %q", tt.node, tt.source, got.Outcome, got.Err, tt.outcome, tt.text)
			}
		}
		if after, err := b.Store.Load(node1); err != nil || after != record {
			t.Errorf("got the record %+v, %v, want it as it was", after, err)
		}
	})
}
