package provision_test

import (
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
