package provision_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"choria-provision/provision"
	"choria-provision/provision/installstate"
)

// A state that cannot be read is told once and lets no node start: it is no fault
// of a node.
func TestStateThatCannotBeReadFailsNoNode(t *testing.T) {
	t.Parallel()
	for name, dry := range map[string]bool{"a run": false, "a dry run": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, nil)
			b.DryRun.On = dry
			if err := os.WriteFile(filepath.Join(b.Store.Dir(), installstate.DatabaseFile), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			var names []string
			for i := range 20 {
				names = append(names, fmt.Sprintf("n%d", i))
			}
			sum := b.run(t.Context(), names...)
			if len(sum.Results) != 0 || sum.Unhandled != len(names) || !errors.Is(sum.StateErr, provision.ErrState) {
				t.Errorf("got %d results, %d not started, %v, want none, %d and the failure", len(sum.Results), sum.Unhandled, sum.StateErr, len(names))
			}
		})
	}
}

// A claim that cannot be made because the state fails ends the run as well.
func TestStateThatTakesNoClaimEndsTheRun(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	b.Config.Workers = 1
	if err := os.WriteFile(filepath.Join(b.Store.Dir(), "sessions"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var names []string
	for i := range 200 {
		names = append(names, fmt.Sprintf("n%d", i))
	}
	sum := b.run(t.Context(), names...)
	if got := len(sum.Results); got == 0 || got == len(names) || sum.Unhandled != len(names)-got || !errors.Is(sum.StateErr, provision.ErrState) {
		t.Errorf("got %d results, %d not started, %v, want those of the first calls, the rest and the failure", got, sum.Unhandled, sum.StateErr)
	}
	for _, name := range names {
		if asked := b.fleet.Actions(name); len(asked) != 0 {
			t.Errorf("%s was asked for %v without a claim", name, asked)
		}
	}
}

// The same failure before and after the restart is one notice.
func TestStateThatFailsAtTheRestartIsToldOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	b.fleet.On(node1, configure, func(_ context.Context, _ int, ok func() provision.Reply) ([]provision.Reply, error) {
		return []provision.Reply{ok()}, os.Rename(filepath.Join(b.Store.Dir(), installstate.DatabaseFile), filepath.Join(t.TempDir(), "moved"))
	})
	sum := b.run(t.Context(), node1)
	got := resultOf(t, sum, node1)
	if told := strings.Count(strings.Join(got.Notices, "\n"), "moved away"); got.Outcome != provision.Provisioned || told != 1 {
		t.Errorf("got %v with notices %q (%v), want it provisioned and the failure told once", got.Outcome, got.Notices, got.Err)
	}
	if !errors.Is(sum.StateErr, provision.ErrState) {
		t.Errorf("got %v, want the failure of the state", sum.StateErr)
	}
}
