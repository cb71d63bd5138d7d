package commands

import (
	"encoding/json"
	"strings"
	"testing"

	"choria-provision/internal/lab"
)

func TestRestartTellsAsJSON(t *testing.T) {
	t.Parallel()
	l := startLab(t, lab.Options{Nodes: 1, Enrollment: lab.Insecure})
	waits := l.NodeNames()[0]
	r := runIn(t, l, "restart", waits, "absent.example.net", waits, "--output", "json")
	if r.code != exitNodes {
		t.Errorf("got exit code %d, want %d\n%s", r.code, exitNodes, r.stderr)
	}
	var doc lifecycleDocument
	if err := json.Unmarshal([]byte(r.stdout), &doc); err != nil {
		t.Fatalf("stdout is not one JSON document: %v\n%s", err, r.stdout)
	}
	if len(doc.Nodes) != 2 || doc.Nodes[0].Identity != waits || doc.Nodes[0].Outcome != "failed" || !strings.Contains(doc.Nodes[1].Error, "not connected") {
		t.Errorf("got %+v, want two nodes that failed, the one named twice once: one has no configuration yet, one is not there", doc.Nodes)
	}
}
