package provision_test

import (
	"strings"
	"testing"
	"testing/synctest"

	"choria-provision/config"
	"choria-provision/provision"

	"github.com/google/go-cmp/cmp"
)

// planned does a dry run that asks the helper about one node.
func planned(t *testing.T, change func(*config.Config), answer provision.Answer) (got provision.Result) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, change)
		b.fleet.Site.Upgradable = true
		b.DryRun = provision.DryRun{On: true, RunHelper: true}
		b.Helper = answering(answer)
		got = resultOf(t, b.run(t.Context(), "n1.example.net"), "n1.example.net")
	})
	return got
}

func TestPlanEndsWithTheUpgrade(t *testing.T) {
	t.Parallel()
	upgrading := func(c *config.Config) { c.Features.Upgrades, c.UpgradesRepository = true, "http://127.0.0.1/releases" }
	for name, answer := range map[string]provision.Answer{
		"alone":                {Upgrade: "0.30.0"},
		"with a configuration": {Upgrade: "0.30.0", Configuration: settings()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := planned(t, upgrading, answer)
			want := &provision.Plan{Steps: []provision.PlannedStep{
				{Step: "age", Note: "done in this dry run"}, {Step: "inventory", Note: "done in this dry run"},
				{Step: "helper", Note: "done in this dry run"}, {Step: "upgrade"},
			}}
			if diff := cmp.Diff(want, got.Plan); got.Outcome != provision.Planned || diff != "" {
				t.Errorf("got %s (%v), plan (-want +got):\n%s", got.Outcome, got.Err, diff)
			}
		})
	}
}

// A dry run has the node make neither key nor request, so nothing can be signed.
func TestDryRunDoesNotMissWhatItDidNotAskFor(t *testing.T) {
	t.Parallel()
	withPKI := func(c *config.Config) { c.Features.JWT, c.Features.PKI = true, true }
	tests := []struct {
		name    string
		answer  provision.Answer
		notices string
	}{
		{"no certificate", provision.Answer{Configuration: settings()}, ""},
		{"key without certificate", provision.Answer{Configuration: settings(), Key: "x"}, "a real run would refuse this answer"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.answer.Configuration["rpcauthorization"] = "false"
			got := planned(t, withPKI, tt.answer)
			if notices := strings.Join(got.Notices, "\n"); got.Outcome != provision.Planned || (notices == "") != (tt.notices == "") || !strings.HasPrefix(notices, tt.notices) {
				t.Errorf("got %s (%v), notices %q, want planned and %q", got.Outcome, got.Err, notices, tt.notices)
			}
			if got.Plan.Configuration["identity"] != "n1.example.net" {
				t.Errorf("got %v, want what would be sent", got.Plan.Configuration)
			}
		})
	}
}
