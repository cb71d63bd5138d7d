package output

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"choria-provision/provision"

	"github.com/google/go-cmp/cmp"
)

// counted is a document with so many nodes of each outcome.
func counted(outcomes map[provision.Outcome]int) (doc Document) {
	doc.Totals.Outcomes = map[string]int{}
	for _, outcome := range provision.Outcomes {
		for i := range outcomes[outcome] {
			doc.Nodes = append(doc.Nodes, Node{Identity: fmt.Sprintf("%s%02d", outcome, i), Outcome: string(outcome)})
		}
		doc.Totals.Outcomes[string(outcome)] = outcomes[outcome]
		doc.Totals.Nodes += outcomes[outcome]
	}
	return doc
}

func TestTotals(t *testing.T) {
	t.Parallel()
	some := map[provision.Outcome]int{provision.Failed: 1, provision.Provisioned: 3}
	tests := []struct {
		name     string
		outcomes map[provision.Outcome]int
		change   func(*Document)
		want     string
	}{
		{"no node", nil, func(*Document) {}, "Nobody waits to be provisioned.\n"},
		{"a run that could not start", nil, func(d *Document) { d.Run.Error = "no broker" }, ""},
		{"refused sightings alone", nil, func(d *Document) { d.Discovery.Refused = []Refusal{{Identity: "a b"}} }, ""},
		{"one node", map[provision.Outcome]int{provision.Provisioned: 1}, func(d *Document) { d.Run.Duration = 0.34 }, "1 node in 0.3s: 1 provisioned\n"},
		{"outcomes in their order", some, func(d *Document) { d.Run.Duration = 75 }, "4 nodes in 1m15s: 3 provisioned, 1 failed\n"},
		{"nodes not handled", some, func(d *Document) { d.Totals.Unhandled = 2 }, "6 nodes in 0.0s: 3 provisioned, 1 failed, 2 not handled\n"},
		{"no node handled", nil, func(d *Document) { d.Totals.Unhandled = 2 }, "2 nodes in 0.0s: 2 not handled\n"},
		{"nodes beyond the limit", some, func(d *Document) { d.Totals.Left = 5 }, "9 nodes in 0.0s: 3 provisioned, 1 failed, 5 beyond the limit\n"},
		{"a dry run", map[provision.Outcome]int{provision.Planned: 2}, func(d *Document) { d.Run.DryRun = true }, "Dry run, nothing was changed. 2 nodes in 0.0s: 2 planned\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			doc := counted(tt.outcomes)
			tt.change(&doc)
			if got := rendered(t, 0, func(p *Page) { totals(p, doc) }); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestNodesThatTheTableLists(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		outcomes map[provision.Outcome]int
		rows     int
		unlisted string
	}{
		{"fifty nodes", map[provision.Outcome]int{provision.Provisioned: 50}, 50, ""},
		{"one more", map[provision.Outcome]int{provision.Provisioned: 51}, 0, "Not listed: 51 provisioned."},
		{"ten failed among many", map[provision.Outcome]int{provision.Provisioned: 41, provision.Failed: 10}, 10, "Not listed: 41 provisioned."},
		{"eleven failed among many", map[provision.Outcome]int{provision.Provisioned: 41, provision.Failed: 11}, 0, "Not listed: 11 failed, 41 provisioned."},
		{"few of each among many", map[provision.Outcome]int{provision.Provisioned: 45, provision.Deferred: 3, provision.Shutdown: 2, provision.Skipped: 1}, 6, "Not listed: 45 provisioned."},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := rendered(t, 0, func(p *Page) { nodeTable(p, counted(tt.outcomes), nil) })
			table, rest, _ := strings.Cut(got, "Not listed")
			if rows := max(0, strings.Count(table, "\n")-1); rows != tt.rows {
				t.Errorf("got %d rows, want %d:\n%s", rows, tt.rows, got)
			}
			if (rest != "") != (tt.unlisted != "") || !strings.Contains(got, tt.unlisted) {
				t.Errorf("got %q, want %q in it", got, tt.unlisted)
			}
		})
	}
}

func TestTableListsWhatNeedsAttentionFirst(t *testing.T) {
	t.Parallel()
	every := map[provision.Outcome]int{}
	for _, outcome := range provision.Outcomes {
		every[outcome] = 1
	}
	got := rendered(t, 0, func(p *Page) { nodeTable(p, counted(every), nil) })
	want := lines("NODE           OUTCOME", "failed00       failed", "deferred00     deferred", "shutdown00     shutdown", "skipped00      skipped",
		"planned00      planned", "upgraded00     upgraded", "provisioned00  provisioned")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestDetailOfANode(t *testing.T) {
	t.Parallel()
	tests := []struct {
		node Node
		want string
	}{
		{Node{}, ""},
		{Node{Version: "1"}, "version 1"},
		{Node{Version: "1", Upgrade: "2"}, "1 → 2"},
		{Node{Version: "1", Upgrade: "2", Message: "later"}, "later"},
		{Node{Version: "1", Message: "later", Error: "no"}, "no"},
	}
	for _, tt := range tests {
		if got := detail(tt.node); got != tt.want {
			t.Errorf("%+v: got %q, want %q", tt.node, got, tt.want)
		}
	}
}

func TestErrorsAreShownInTheTableOrInAGroup(t *testing.T) {
	t.Parallel()
	same := failedNodes(2, "jwt", func(int) error { return provision.ErrNoReply })
	differing := failedNodes(2, "jwt", func(i int) error { return &provision.Refused{Action: "a#b", Message: fmt.Sprint("reason ", i)} })
	tests := []struct {
		name   string
		nodes  []Node
		text   string
		occurs int
	}{
		{"the same error", same, provision.ErrNoReply.Error(), 1},
		{"an error of its own", differing, "reason 1", 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := rendered(t, 0, func(p *Page) { Summary(p, Document{Nodes: tt.nodes}) })
			if n := strings.Count(got, tt.text); n != tt.occurs {
				t.Errorf("got %q %d times, want %d:\n%s", tt.text, n, tt.occurs, got)
			}
		})
	}
}

func TestSummaryOfALargeRunGroupsEveryOutcome(t *testing.T) {
	t.Parallel()
	outcomes := map[provision.Outcome]int{provision.Provisioned: 60, provision.Deferred: 2, provision.Shutdown: 1}
	large := rendered(t, 0, func(p *Page) { Summary(p, counted(outcomes)) })
	outcomes[provision.Provisioned] = 5
	small := rendered(t, 0, func(p *Page) { Summary(p, counted(outcomes)) })
	for _, heading := range []string{"Deferred\n", "Shut down\n"} {
		if !strings.Contains(large, heading) || strings.Contains(small, heading) {
			t.Errorf("got %q in\n%s\nand\n%s\nwant it in the large run alone", heading, large, small)
		}
	}
}

func TestReportThatCannotBeSavedLeavesTheFormerOne(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, LastRunFile)
	if err := os.MkdirAll(filepath.Join(path, "in the way"), 0o700); err != nil {
		t.Fatal(err)
	}
	packed, err := Document{SchemaVersion: SchemaVersion}.Save(path)
	if err == nil || packed != nil || !strings.HasPrefix(err.Error(), "report: ") {
		t.Errorf("got %v and %d bytes, want an error of the report", err, len(packed))
	}
	entries, _ := os.ReadDir(dir)
	if len(entries) != 1 || !entries[0].IsDir() {
		t.Errorf("got %v, want no temporary file left", entries)
	}
	if _, err := (Document{SchemaVersion: SchemaVersion}).Save(filepath.Join(dir, "no", "such")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want %v", err, fs.ErrNotExist)
	}
}

func TestPackedReportIsThatOfSave(t *testing.T) {
	t.Parallel()
	doc := documentOf(smallRun(), End{ExitCode: 3})
	packed, err := doc.Pack()
	if err != nil {
		t.Fatal(err)
	}
	saved, err := doc.Save(filepath.Join(t.TempDir(), LastRunFile))
	if err != nil || !bytes.Equal(packed, saved) {
		t.Errorf("got %v and other bytes, want the same from both", err)
	}
}

// failing fails after so many bytes.
type failing struct{ left int }

func (f *failing) Write(text []byte) (int, error) {
	if f.left -= len(text); f.left < 0 {
		return 0, os.ErrClosed
	}
	return len(text), nil
}

func TestReportThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	doc := documentOf(largeRun(), End{})
	for _, size := range []int{0, 5_000, 100_000} {
		if err := doc.WriteJSON(&failing{size}); !errors.Is(err, os.ErrClosed) {
			t.Errorf("after %d bytes: got %v, want %v", size, err, os.ErrClosed)
		}
	}
	if err := WriteJSON(&failing{}, 1); !errors.Is(err, os.ErrClosed) {
		t.Errorf("got %v, want %v", err, os.ErrClosed)
	}
}

func TestUnresolvedNodesAreBounded(t *testing.T) {
	t.Parallel()
	started := began.Add(-time.Hour)
	var last Document
	for i := range maxUnresolved + 5 {
		last.Nodes = append(last.Nodes, Node{Identity: fmt.Sprint("n", i), Outcome: "failed", Started: &started})
	}
	doc := Document{Run: Run{Started: began}}
	doc.KeepUnresolved(last, func(string) bool { return false })
	if len(doc.Unresolved) != maxUnresolved || doc.Unresolved[maxUnresolved-1].Identity != fmt.Sprint("n", maxUnresolved-1) {
		t.Errorf("got %d nodes, want the first %d", len(doc.Unresolved), maxUnresolved)
	}
}

func TestNodesWithoutAStartAreNotKept(t *testing.T) {
	t.Parallel()
	doc := Document{Run: Run{Started: began}}
	doc.KeepUnresolved(Document{Nodes: []Node{{Identity: "a", Outcome: "failed"}}}, func(string) bool { return false })
	if len(doc.Unresolved) != 0 {
		t.Errorf("got %+v, want nothing: the age of the failure is unknown", doc.Unresolved)
	}
}

func TestForgetFindsAnEscapedIdentity(t *testing.T) {
	t.Parallel()
	doc := Document{Nodes: []Node{{Identity: `a\x1b`}, {Identity: "b"}}}
	if !doc.Forget("a\x1b") || len(doc.Nodes) != 1 || doc.Nodes[0].Identity != "b" {
		t.Errorf("got %+v, want b alone", doc.Nodes)
	}
}

func TestATimersRunIsSilentWithOrdinarySkipsAlone(t *testing.T) {
	t.Parallel()
	skipped := func(cause string, notices ...string) Node {
		return Node{Identity: "a", Outcome: "skipped", Cause: cause, Notices: notices}
	}
	tests := []struct {
		name string
		doc  Document
		want bool
	}{
		{"no node", Document{}, true},
		{"held", Document{Nodes: []Node{skipped("held")}}, true},
		{"locked", Document{Nodes: []Node{skipped("locked")}}, true},
		{"busy", Document{Nodes: []Node{skipped("busy")}}, true},
		{"resetting", Document{Nodes: []Node{skipped("resetting")}}, true},
		{"held with a notice", Document{Nodes: []Node{skipped("held", "look")}}, false},
		{"another cause", Document{Nodes: []Node{skipped("owned")}}, false},
		{"one of two is news", Document{Nodes: []Node{skipped("held"), skipped("paused")}}, false},
		{"a failed node with an ordinary cause", Document{Nodes: []Node{{Outcome: "failed", Cause: "busy"}}}, false},
		{"a refused sighting", Document{Discovery: Discovery{Refused: []Refusal{{Identity: "a b"}}}}, false},
		{"nodes not handled", Document{Totals: Totals{Unhandled: 1}}, false},
		{"nodes beyond the limit", Document{Totals: Totals{Left: 1}}, true},
		{"an exit code", Document{Run: Run{ExitCode: 4}}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := NothingToDo(tt.doc); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}
