package commands

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"choria-provision/internal/lab"
)

// A node without a disk restarts while the helper is asked, between two calls that
// are both answered: only its startup event tells that its key is gone.
func TestANodeThatLosesItsKeyBetweenTwoCallsIsInServiceAfterwards(t *testing.T) {
	t.Parallel()
	for _, enrollment := range []string{lab.PKI, lab.Issuer} {
		t.Run(enrollment, func(t *testing.T) {
			t.Parallel()
			l := startLab(t, lab.Options{Nodes: 2, Enrollment: enrollment})
			asked, answer := filepath.Join(l.Dir(), "asked"), filepath.Join(l.Dir(), "answer")
			helper := filepath.Join(l.Dir(), "slow-helper")
			script := fmt.Sprintf(`#!/bin/sh
input=$(cat)
case $input in
*node1*) if ! [ -e %[1]s ]; then : > %[1]s; until [ -e %[2]s ]; do sleep 0.05; done; fi ;;
esac
printf '%%s' "$input" | exec %[3]s
`, asked, answer, filepath.Join(l.Dir(), "bin", "lab-helper"))
			if err := os.WriteFile(helper, []byte(script), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := l.SetConfig(map[string]any{"helper": helper}); err != nil {
				t.Fatal(err)
			}
			cmd, stdout, stderr := provisionCommand(t, l, "once", "--output", "json")
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			await(t, "the helper", func() bool { _, err := os.Stat(asked); return err == nil })
			if err := l.Reboot(t.Context(), "node1.example.net"); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(answer, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			r := ended(t, cmd.Wait(), stdout, stderr)
			if got := inService(t, l); len(got) != 2 || r.code != 0 {
				t.Errorf("in service: %v, want both; exit code %d\n%s%s", got, r.code, r.stdout, r.stderr)
			}
		})
	}
}
