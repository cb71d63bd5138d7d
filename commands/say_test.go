package commands

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"choria-provision/internal/lab"
)

func TestErrorsAndWarningsAreLinesOfTheChosenFormat(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "provision.yaml")
	text := "token: s3cret\nstate_dir: " + dir + "\nhelper: /bin/cat\nrego_policy: old\n"
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil { // readable by others: a warning
		t.Fatal(err)
	}
	missing := filepath.Join(dir, "missing.yaml")
	tests := []struct {
		name, config string
		code         int
		levels       []string
		want         string
	}{
		{"warnings", file, 0, []string{"warning", "warning"}, "rego_policy"},
		{"an error", missing, 2, []string{"error"}, missing},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var stdout, stderr bytes.Buffer
			streams := Streams{In: strings.NewReader(""), Out: &stdout, Err: &stderr}
			code := Run(t.Context(), []string{"--config", tt.config, "--log-format", "json", "status", "--output", "json"}, streams)
			if code != tt.code {
				t.Errorf("got exit code %d, want %d", code, tt.code)
			}
			lines := strings.Split(strings.TrimSpace(stderr.String()), "\n")
			if len(lines) != len(tt.levels) || !strings.Contains(stderr.String(), tt.want) {
				t.Fatalf("got\n%s\nwant %d lines, with %s", stderr.String(), len(tt.levels), tt.want)
			}
			for i, line := range lines {
				var got struct{ Level, Msg, Time string }
				if err := json.Unmarshal([]byte(line), &got); err != nil || got.Level != tt.levels[i] || got.Msg == "" || got.Time == "" {
					t.Errorf("got %s, %v, want a JSON line of level %s", line, err, tt.levels[i])
				}
			}
		})
	}
}

func TestARunThatIsPausedHalfWaySaysSoInItsMetrics(t *testing.T) {
	t.Parallel()
	l := startLab(t, lab.Options{Nodes: 1, Enrollment: lab.Insecure})
	dir := t.TempDir()
	helper := filepath.Join(dir, "helper.sh")
	text := "#!/bin/sh\nprovision pause --reason 'half way' >/dev/null\nexec " + filepath.Join(l.Dir(), "bin", "lab-helper") + "\n"
	if err := os.WriteFile(helper, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	metrics := filepath.Join(dir, "provision.prom")
	if err := l.SetConfig(map[string]any{"metrics_textfile": metrics, "helper": helper}); err != nil {
		t.Fatal(err)
	}
	if doc, r := report(t, l, "once"); outcomes(doc)[l.NodeNames()[0]].Outcome != "skipped" {
		t.Fatalf("got %s\n%s\nwant the node skipped by the pause", r.stdout, r.stderr)
	}
	paused := `choria_provisioner_paused{site="lab"} `
	if got, err := os.ReadFile(metrics); err != nil || !strings.Contains(string(got), paused+"1\n") {
		t.Errorf("got %s, %v, want %s1", got, err, paused)
	}

	if r := runIn(t, l, "resume"); r.code != 0 {
		t.Fatal(r.stderr)
	}
	if err := l.SetConfig(map[string]any{"metrics_textfile": metrics}); err != nil {
		t.Fatal(err)
	}
	if r := runIn(t, l, "once"); r.code != 0 {
		t.Fatal(r.stderr)
	}
	if got, err := os.ReadFile(metrics); err != nil || !strings.Contains(string(got), paused+"0\n") {
		t.Errorf("after the pause: got %s, %v, want %s0", got, err, paused)
	}
}
