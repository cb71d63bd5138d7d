package provision_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
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

const node1 = "n1.example.net"

func TestOneFailureTouchesNoOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, func(c *config.Config) { c.Workers = 7 })
		var names []string
		for i := range 60 {
			names = append(names, fmt.Sprintf("n%d.example.net", i))
		}
		at := b.occupied(10*time.Millisecond, configure, restart)
		b.fleet.On(names[30], inventory, fake.Silent)
		b.fleet.On(names[5], configure, fake.Twice)
		sum := b.run(t.Context(), names...)
		count := map[provision.Outcome]int{}
		for _, result := range sum.Results {
			count[result.Outcome]++
		}
		if diff := cmp.Diff(map[provision.Outcome]int{provision.Provisioned: 58, provision.Failed: 2}, count); diff != "" {
			t.Errorf("outcomes (-want +got):\n%s", diff)
		}
		if got := at.seen.Load(); got != 7 {
			t.Errorf("got %d nodes at work at once, want 7", got)
		}
		if sum.Interrupted || sum.Unhandled != 0 || sum.StateErr != nil {
			t.Errorf("got %+v, want a run that went through", sum)
		}
	})
}

func TestRecordSaysInstallingBeforeTheFirstChangeAndCompleteAfter(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		change func(*config.Config)
		action string
	}{
		{"plain", nil, configure},
		{"issuer", func(c *config.Config) { c.Features.JWT, c.Features.ED25519 = true, true }, gen25519},
		{"pki", func(c *config.Config) { c.Features.JWT, c.Features.PKI = true, true }, gencsr},
		{"a first call that changes the node", func(c *config.Config) { c.Features.ED25519 = true }, gen25519},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, tt.change)
			b.fleet.On(node1, inventory, func(_ context.Context, _ int, ok func() provision.Reply) ([]provision.Reply, error) {
				if _, err := b.Store.Load(node1); tt.action == configure && !errors.Is(err, installstate.ErrNotFound) {
					t.Errorf("got record error %v before any change, want none", err)
				}
				return []provision.Reply{ok()}, nil
			})
			b.fleet.On(node1, tt.action, func(_ context.Context, _ int, ok func() provision.Reply) ([]provision.Reply, error) {
				record, err := b.Store.Load(node1)
				if err != nil || record.Phase != installstate.Installing {
					t.Errorf("got %q, %v during %s, want installing", record.Phase, err, tt.action)
				}
				return []provision.Reply{{Message: "Could not obtain provisioning lock"}}, nil
			})
			b.run(t.Context(), node1)
			record, err := b.Store.Load(node1)
			if err != nil || record.Phase != installstate.Installing {
				t.Errorf("got %q, %v after the failure, want installing", record.Phase, err)
			}
		})
	}
	b := newBench(t, nil)
	b.run(t.Context(), node1)
	record, err := b.Store.Load(node1)
	if err != nil || record.Phase != installstate.Complete {
		t.Errorf("got %q, %v after the restart, want complete", record.Phase, err)
	}
}

func TestHoldAndComingBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil)
		run := func() provision.Result { return resultOf(t, b.run(t.Context(), node1), node1) }

		if got := run(); got.Outcome != provision.Provisioned {
			t.Fatalf("got %s (%v), want provisioned", got.Outcome, got.Err)
		}
		first, _ := b.Store.Load(node1)
		time.Sleep(59 * time.Second)
		if got := run(); got.Outcome != provision.Skipped || !errors.Is(got.Err, provision.ErrHeld) {
			t.Errorf("got %s (%v) within the hold, want skipped as held", got.Outcome, got.Err)
		}
		if _, times := b.fleet.Configured(node1); times != 1 {
			t.Errorf("configured %d times within the hold, want once", times)
		}
		time.Sleep(2 * time.Second)
		if got := run(); got.Outcome != provision.Provisioned {
			t.Errorf("got %s (%v) after the hold, want provisioned", got.Outcome, got.Err)
		}
		second, _ := b.Store.Load(node1)
		if second.InstallationID == first.InstallationID || second.PreviousID != first.InstallationID {
			t.Errorf("got installation %q after %q, want a new one that names the first, %q", second.InstallationID, second.PreviousID, first.InstallationID)
		}
		b.Force = true
		if got := run(); got.Outcome != provision.Provisioned {
			t.Errorf("got %s (%v) by force, want provisioned", got.Outcome, got.Err)
		}
	})
}

func TestHoldAfterShutdownAndFailedUpgradeOnly(t *testing.T) {
	t.Parallel()
	upgrading := func(c *config.Config) { c.Features.Upgrades, c.UpgradesRepository = true, "http://127.0.0.1/x" }
	tests := []struct {
		name   string
		config func(*config.Config)
		answer provision.Answer
		want   bool
	}{
		{"shutdown", nil, provision.Answer{Shutdown: true, Message: "old"}, true},
		{"failed upgrade", upgrading, provision.Answer{Configuration: settings(), Upgrade: "9"}, true},
		{"deferred", nil, provision.Answer{Defer: true}, false},
		{"failed otherwise", nil, provision.Answer{}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, tt.config)
			b.Helper = answering(tt.answer)
			b.run(t.Context(), node1)
			got := resultOf(t, b.run(t.Context(), node1), node1)
			if held := errors.Is(got.Err, provision.ErrHeld); held != tt.want {
				t.Errorf("got %s (%v) the second time, want held %v", got.Outcome, got.Err, tt.want)
			}
		})
	}
}

func TestFreshNodesComeFirstAndTheLimitCuts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, func(c *config.Config) { c.Workers = 1 })
		b.fleet.On("interrupted", configure, fake.Refusing("not now"))
		b.run(t.Context(), "interrupted")
		b.Troubled = func(id string) bool { return id == "failed" }
		before := len(b.fleet.Calls())
		b.fleet.On("", inventory, func(ctx context.Context, n int, ok func() provision.Reply) ([]provision.Reply, error) {
			time.Sleep(soon)
			return fake.Twice(ctx, n, ok)
		})
		b.Limit = 5

		sum := b.run(t.Context(), "interrupted", "failed", "fresh1", "fresh2", "fresh3", "fresh4")
		var order []string
		for _, call := range b.fleet.Calls()[before:] {
			order = append(order, call.Node)
		}
		slices.Sort(order[:4]) // they are called at once
		if diff := cmp.Diff([]string{"fresh1", "fresh2", "fresh3", "fresh4", "interrupted"}, order); diff != "" {
			t.Errorf("order (-want +got):\n%s", diff)
		}
		if sum.Left != 1 || len(sum.Results) != 5 {
			t.Errorf("got %d left and %d results, want 1 and 5", sum.Left, len(sum.Results))
		}
	})
}

func TestNodesThatAreNotOurs(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	other := installstate.NewRecord("owned", installstate.Fingerprint([]byte("another site")))
	if err := b.Store.Save(other); err != nil {
		t.Fatal(err)
	}
	resetting := installstate.NewRecord("resetting", b.Fingerprint)
	resetting.Phase = installstate.Resetting
	if err := b.Store.Save(resetting); err != nil {
		t.Fatal(err)
	}
	broken := map[string]string{"empty": "", "truncated": `{"schema_version":1,"inst`, "nul": "\x00\x00\x00\x00", "shape": `[1,2]`, "future": `{"schema_version":99}`}
	for name, text := range broken {
		if err := fake.PlantRecord(b.Store.Dir(), name, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	lock, err := b.Store.AcquireLock("busy")
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Release()

	sum := b.run(t.Context(), "owned", "resetting", "empty", "truncated", "nul", "shape", "future", "busy", "good")
	want := map[string]error{
		"owned": provision.ErrOwned, "resetting": provision.ErrResetting, "empty": provision.ErrRecord, "truncated": provision.ErrRecord,
		"nul": provision.ErrRecord, "shape": provision.ErrRecord, "future": provision.ErrRecord, "busy": provision.ErrLocked, "good": nil,
	}
	for name, cause := range want {
		got := resultOf(t, sum, name)
		if !errors.Is(got.Err, cause) || (cause == nil) != (got.Err == nil) {
			t.Errorf("%s: got %v, want %v", name, got.Err, cause)
		}
		if cause != nil && len(b.fleet.Actions(name)) != 0 {
			t.Errorf("%s was asked for %v, want nothing", name, b.fleet.Actions(name))
		}
		if cause != nil && !errors.Is(cause, provision.ErrLocked) && !strings.Contains(got.Err.Error(), "provision reset "+name) {
			t.Errorf("%s: got %q, want the command that frees it", name, got.Err)
		}
	}
	if got := resultOf(t, sum, "resetting").Outcome; got != provision.Skipped {
		t.Errorf("a node whose reset is not finished: got %s, want skipped", got)
	}
	for name, text := range broken {
		if left, err := fake.StoredRecord(b.Store.Dir(), name); err != nil || string(left) != text {
			t.Errorf("%s: got %q, %v, want the record as it was", name, left, err)
		}
	}
}

func TestStaleNodesAreRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil)
		seen := discovery.Sighting{Identity: node1, Seen: time.Now()}
		time.Sleep(2*time.Minute + time.Second)
		got := resultOf(t, b.Run(t.Context(), t.Context(), []discovery.Sighting{seen}), node1)
		if got.Outcome != provision.Skipped || !errors.Is(got.Err, provision.ErrStale) {
			t.Errorf("got %s (%v), want skipped as stale", got.Outcome, got.Err)
		}
		if calls := b.fleet.Calls(); len(calls) != 0 {
			t.Errorf("got calls %v, want none", calls)
		}
	})
}

// A redactor of what others repeat must know the token that is sent, not the
// one that was there when the run began.
func TestTokenThatIsRotatedMidRunIsToldBeforeItIsSent(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "token")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	first := ""
	b := newBench(t, func(cfg *config.Config) {
		first, _ = cfg.Token.Reveal()
		write(first)
		cfg.Token = config.NewSecretFile(file)
	})
	var hidden []string
	b.Hide = func(secrets ...string) { hidden = append(hidden, secrets...) }
	b.fleet.On(node1, configure, ending(func() { write("second-token") }))
	b.run(t.Context(), node1)
	if !slices.Contains(hidden, first) || !slices.Contains(hidden, "second-token") {
		t.Errorf("got %q told, want both tokens", hidden)
	}
}

func TestTwoMachinesWithOneIdentityFailWithoutACall(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	sum := b.Run(t.Context(), t.Context(), []discovery.Sighting{
		{Identity: node1, Seen: time.Now(), Err: &discovery.Duplicate{Count: 2}}, {Identity: "good", Seen: time.Now()},
	})
	got := resultOf(t, sum, node1)
	if got.Outcome != provision.Failed || got.Step != "discovery" || !errors.Is(got.Err, discovery.ErrTwins) {
		t.Errorf("got %+v, want it failed at discovery as a duplicate", got)
	}
	if asked := b.fleet.Actions(node1); len(asked) != 0 {
		t.Errorf("it was asked for %v, want nothing", asked)
	}
	if got := resultOf(t, sum, "good"); got.Outcome != provision.Provisioned {
		t.Errorf("got %s for the other node, want provisioned", got.Outcome)
	}
}
