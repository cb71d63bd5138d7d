package metrics

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"choria-provision/discovery"
	"choria-provision/provision"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// golden compares got with a file under testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("got other text than %s (-want +got):\n%s", path, diff)
	}
}

// began is when the runs of these tests start.
var began = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func nodeDone(identity string, outcome provision.Outcome) provision.NodeDone {
	return provision.NodeDone{Result: provision.Result{Node: identity, Outcome: outcome}}
}

// smallRun has every outcome that a real run can have.
func smallRun() []any {
	events := []any{
		discovery.Refused{Identity: "bad\x1b[2J", Count: 1, Err: discovery.ErrInvalidIdentity},
		discovery.Cycle{Answers: 12, Took: 700 * time.Millisecond},
		provision.RunStarted{Nodes: 9, Left: 1, Workers: 4},
		nodeDone("twin.example.net", provision.Failed), nodeDone("held.example.net", provision.Skipped),
	}
	for _, done := range []provision.NodeDone{
		nodeDone("web1.example.net", provision.Provisioned), nodeDone("web2.example.net", provision.Provisioned),
		nodeDone("old.example.net", provision.Upgraded), nodeDone("later.example.net", provision.Deferred),
		nodeDone("gone.example.net", provision.Shutdown), nodeDone("db1.example.net", provision.Failed),
		nodeDone("db2.example.net", provision.Failed), nodeDone("odd.example.net", provision.Failed),
	} {
		events = append(events, provision.NodeStarted{Node: done.Node}, done)
	}
	return events
}

// checkPrintable fails when text holds a control character.
func checkPrintable(t *testing.T, text string) {
	t.Helper()
	if strings.ContainsFunc(text, func(r rune) bool { return r != '\n' && (r < ' ' || r >= 0x7f && r < 0xa0) }) {
		t.Errorf("got a control character in %q", text)
	}
}

func TestErrorsHaveTheRequestedPath(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "nowhere", "file.prom")
	err := WriteTextfile(path, newTestMetrics("s"))
	if !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), path+": ") {
		t.Errorf("got %v, want an error of %s", err, path)
	}
}
