package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestMain(m *testing.M) {
	if os.Getenv("MAIN_TEST_RUN") != "" {
		main()
	}
	os.Exit(m.Run())
}

func TestProgramPlaysTheLabsChildren(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"choria-server", "lab-helper", "lab-asker"} {
		link := filepath.Join(t.TempDir(), name)
		if err := os.Symlink(self, link); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), link)
		cmd.Env = append(os.Environ(), "MAIN_TEST_RUN=1")
		cmd.Stdin = strings.NewReader(`{"identity": "node"}`)
		out, err := cmd.CombinedOutput()
		// a child that finds no lab says so in its own name, whatever else it
		// lacks; the server may see its input end first, and then ends well
		if strings.Contains(string(out), "--help") || err != nil && !strings.HasPrefix(string(out), name+": ") {
			t.Errorf("got %v and %q when called %s, want the lab's child", err, out, name)
		}
	}
}
