package output

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestCarryOverKeepsWhatWouldBeForgotten(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 8, 0, 0, 0, 0, time.UTC)
	old, fresh := now.Add(-maxUnresolvedAge), now.Add(-maxUnresolvedAge+time.Second)
	node := func(name, outcome string) Node {
		return Node{Identity: name, Outcome: outcome, Message: outcome + " by " + name, Started: &fresh}
	}
	aged := node("aged out", "failed")
	aged.Started = &old
	last := Document{
		Nodes: []Node{
			node("failed", "failed"), node("deferred", "deferred"), node("good", "provisioned"), node("held", "skipped"),
			node("again", "failed"), node("busy", "failed"), node("mended", "failed"), node("twice", "failed"),
		},
		Unresolved: []Node{aged, node("older", "deferred"), node("twice", "deferred")},
	}
	doc := Document{Run: Run{Started: now}, Nodes: []Node{node("again", "provisioned"), node("busy", "skipped"), node("new", "failed")}}
	doc.KeepUnresolved(last, func(name string) bool { return name == "mended" })
	want := []Node{node("failed", "failed"), node("deferred", "deferred"), node("busy", "failed"), node("twice", "failed"), node("older", "deferred")}
	if diff := cmp.Diff(want, doc.Unresolved); diff != "" {
		t.Errorf("carried over (-want +got):\n%s", diff)
	}
	if !doc.Forget("failed") || doc.Forget("failed") || !doc.Forget("new") || len(doc.Unresolved) != 4 || len(doc.Nodes) != 2 {
		t.Errorf("got %d earlier and %d nodes, want those that were named forgotten", len(doc.Unresolved), len(doc.Nodes))
	}
}

func TestNodesAreEncodedOneByOneAsTheWholeWouldBe(t *testing.T) {
	t.Parallel()
	for _, count := range []int{0, 1, 3} {
		doc := Document{SchemaVersion: 1, Nodes: []Node{}, Run: Run{Error: `says "nodes": [] <&>`}, Discovery: Discovery{Refused: []Refusal{}}}
		for range count {
			doc.Nodes = append(doc.Nodes, Node{Identity: "n", Message: `"nodes": []`, Steps: []NodeStep{{Step: "jwt"}}})
		}
		want, err := encode(doc, "")
		if err != nil {
			t.Fatal(err)
		}
		var got bytes.Buffer
		if err := doc.WriteJSON(&got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), got.String()); diff != "" {
			t.Errorf("%d nodes (-want +got):\n%s", count, diff)
		}
	}
}
