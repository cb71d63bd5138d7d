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
	r := runIn(t, l, "once", "--debug")
	if r.code != exitDone || strings.Contains(r.stderr, "Failed to write") {
		t.Errorf("got exit code %d, want 0 and no line that the closed log file refused\n%s", r.code, r.stderr)
	}
	if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), "discovered") {
		t.Errorf("log file: %v\n%s", err, text)
	}
}

func TestWhatChangesNothingLeavesTheLogFileAlone(t *testing.T) {
	t.Parallel()
	l := startLab(t, lab.Options{Nodes: 1, Enrollment: lab.Insecure})
	file := filepath.Join(t.TempDir(), "provision.log")
	if err := l.SetConfig(map[string]any{"logfile": file}); err != nil {
		t.Fatal(err)
	}
	const told = "its log goes to stderr, not to "
	tests := []struct {
		name string
		args []string
		told bool
	}{
		{"once", []string{"once", "--dry-run", "--debug"}, true},
		{"node", []string{"node", l.NodeNames()[0], "--dry-run", "--debug"}, true},
		{"discover", []string{"discover", "--debug"}, false},
		{"a timer's", []string{"once", "--dry-run", "--debug", "--unattended"}, false},
		{"config check", []string{"config", "check"}, false},
	}
	for _, before := range []string{"", "what was there\n"} {
		if before != "" {
			if err := os.WriteFile(file, []byte(before), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for _, tt := range tests {
			r := runIn(t, l, tt.args...)
			if r.code != exitDone || strings.Contains(r.stderr, told+file) != tt.told {
				t.Errorf("%s: got exit code %d, want 0, and to be told where the log is: %t\n%s", tt.name, r.code, tt.told, r.stderr)
			}
			if text, err := os.ReadFile(file); string(text) != before || os.IsNotExist(err) != (before == "") {
				t.Errorf("%s: got log file %q, %v, want %q", tt.name, text, err, before)
			}
			if args := strings.Join(tt.args, " "); strings.Contains(args, "--debug") && !strings.Contains(r.stderr, "level=debug") {
				t.Errorf("%s: the log is not on stderr\n%s", tt.name, r.stderr)
			}
		}
	}
}
