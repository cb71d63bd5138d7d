package commands

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"choria-provision/internal/lab"
)

func TestLogFileHearsTheEndOfTheConnection(t *testing.T) {
	t.Parallel()
	l := startLab(t, lab.Options{Nodes: 1, Enrollment: lab.Insecure})
	file := filepath.Join(t.TempDir(), "provision.log")
	if err := l.SetConfig(map[string]any{"logfile": file}); err != nil {
		t.Fatal(err)
	}
	r := runIn(t, l, "once", "--dry-run", "--debug")
	if r.code != exitDone || strings.Contains(r.stderr, "Failed to write") {
		t.Errorf("got exit code %d, want 0 and no line that the closed log file refused\n%s", r.code, r.stderr)
	}
	if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), "discovered") {
		t.Errorf("log file: %v\n%s", err, text)
	}
}
