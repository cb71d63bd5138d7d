package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// exposure is what `systemd-analyze security` may find of a unit's sandbox, in
// tenths of its scale from 0 to 10: it found 18 when this was written.
const exposure = "20"

func TestSystemdAcceptsTheUnits(t *testing.T) {
	t.Parallel()
	needs(t, "systemd-analyze")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, name := range []string{"provision.service", "provision.timer", "provision-watch.service"} {
		text, err := os.ReadFile(filepath.Join("..", "systemd", name))
		if err != nil {
			t.Fatal(err)
		}
		unit := strings.ReplaceAll(string(text), "/usr/bin/provision", self) // which is there
		if err := os.WriteFile(filepath.Join(dir, name), []byte(unit), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"provision.service", "provision.timer", "provision-watch.service"} {
		path := filepath.Join(dir, name)
		// What it does not know is a warning, and no failure of the command.
		if out, err := exec.Command("systemd-analyze", "verify", "--man=no", path).CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("verify %s: got %v and %s, want nothing", name, err, out)
		}
		if filepath.Ext(name) == ".timer" {
			continue
		}
		if out, err := run(".", nil, "systemd-analyze", "security", "--offline=true", "--threshold="+exposure, path); err != nil {
			t.Errorf("security %s: %v\n%s", name, err, out)
		}
	}
}
