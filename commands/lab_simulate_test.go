package commands

import (
	"testing"

	"choria-provision/internal/fleet"
	"choria-provision/internal/lab"
)

func TestSimulatedNodesAreProvisionedOnceAndFaultyOnesLeftAlone(t *testing.T) {
	t.Parallel()
	for _, enrollment := range []string{lab.Insecure, lab.PKI, lab.Issuer} {
		t.Run(enrollment, func(t *testing.T) {
			t.Parallel()
			l := startLab(t, lab.Options{Enrollment: enrollment, Simulate: 20, PerConnection: 7, Faults: []fleet.Fault{
				{Kind: fleet.Refuse, Share: 0.1}, {Kind: fleet.Garbage, Share: 0.1}, {Kind: fleet.Twin, Share: 0.1},
				{Kind: fleet.Dead, Share: 0.1}, {Kind: fleet.Slow, Share: 0.1},
			}})
			if r := runIn(t, l, "once"); r.code != 3 {
				t.Errorf("got exit code %d, want 3: some nodes are faulty\n%s", r.code, r.stderr)
			}
			report, err := l.Simulated()
			if err != nil {
				t.Fatal(err)
			}
			if err := report.Check(); err != nil {
				t.Error(err)
			}
			if got := report.InService(); got != 12 || report.Provisionable() != 12 {
				t.Errorf("got %d of %d nodes in service, want 12 of 12", got, report.Provisionable())
			}
			for action, want := range map[string]int{"choria_provision#configure": 12, "choria_provision#restart": 12} {
				if got := report.Actions[action]; got != want {
					t.Errorf("got %d requests for %s, want %d", got, action, want)
				}
			}
		})
	}
}
