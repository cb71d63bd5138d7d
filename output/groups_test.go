package output

import (
	"errors"
	"fmt"
	"testing"

	"choria-provision/discovery"
	"choria-provision/provision"

	"github.com/google/go-cmp/cmp"
)

// The hint of a node that does not reply.
var noReplyHint = func() string { _, hint := Hint(provision.ErrNoReply); return hint }()

func failedNodes(count int, step string, cause func(i int) error) (nodes []Node) {
	for i := range count {
		name := fmt.Sprintf("web%02d", i)
		nodes = append(nodes, nodeOf(provision.Result{Node: name, Outcome: provision.Failed, Step: step, Err: located(name, step, cause(i))}))
	}
	return nodes
}

func TestFailuresAreGroupedByCause(t *testing.T) {
	t.Parallel()
	same := func(int) error { return provision.ErrNoReply }
	refused := func(i int) error { return &provision.Refused{Action: "a#b", Message: fmt.Sprint("reason ", i)} }
	odd := func(i int) error { return fmt.Errorf("odd %d", i%2) }
	_, refusedHint := Hint(provision.ErrRefused)
	tests := []struct {
		name  string
		width int
		nodes []Node
		want  string
	}{
		{"none", 0, nil, ""},
		{"one node", 0, failedNodes(1, "jwt", same), lines("Failed", "  web00 at jwt: the node did not answer in time", "    "+noReplyHint, "")},
		{"four nodes are named", 0, failedNodes(4, "jwt", same), lines("Failed", "  4 × web00, web01, web02, web03 at jwt: the node did not answer in time", "    "+noReplyHint, "")},
		{"of five nodes three are named", 0, failedNodes(5, "jwt", same), lines("Failed", "  5 × web00, web01, web02 and 2 more at jwt: the node did not answer in time", "    "+noReplyHint, "")},
		{"steps are named once", 0, append(failedNodes(2, "jwt", same), failedNodes(1, "configure", same)...), lines("Failed", "  3 × web00, web00, web01 at jwt, configure: the node did not answer in time", "    "+noReplyHint, "")},
		{"different texts of one cause", 0, failedNodes(2, "jwt", refused), lines("Failed", "  2 × web00, web01 at jwt: the node refused the request", "    "+refusedHint, "")},
		{"different texts of many nodes", 0, failedNodes(11, "jwt", refused), lines("Failed", "  11 × web00, web01, web02 and 8 more at jwt: the node refused the request, such as: a#b refused: reason 0", "    "+refusedHint, "")},
		{"unknown causes by their text", 0, failedNodes(3, "jwt", odd), lines("Failed", "  2 × web00, web02 at jwt: odd 0", "  web01 at jwt: odd 1", "")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := rendered(t, tt.width, func(p *Page) { groups(p, "Failed", byCause(tt.nodes, provision.Failed), Bad, "") })
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestDeferredNodesAreGroupedByTheHelpersMessage(t *testing.T) {
	t.Parallel()
	nodes := []Node{
		{Identity: "c", Outcome: "deferred", Message: "today"}, {Identity: "a", Outcome: "deferred", Message: "monday"},
		{Identity: "b", Outcome: "deferred", Message: "monday"}, {Identity: "x", Outcome: "failed", Message: "monday"},
	}
	got := rendered(t, 0, func(p *Page) { groups(p, "Deferred", byCause(nodes, provision.Deferred), Warn, "") })
	if diff := cmp.Diff(lines("Deferred", "  2 × a, b: monday", "  c: today", ""), got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestRefusedSightingsAreGroupedAndDuplicatesAreNot(t *testing.T) {
	t.Parallel()
	refusalOf := func(identity string, count int, err error) Refusal {
		return refusal(discovery.Refused{Identity: identity, Count: count, Err: err})
	}
	refused := []Refusal{
		refusalOf("a b", 1, discovery.ErrInvalidIdentity), refusalOf("twin", 2, discovery.ErrTwins), refusalOf("c/d", 3, discovery.ErrInvalidIdentity),
	}
	got := refusals(refused)
	if len(got) != 1 || !cmp.Equal(got[0].names, []string{"a b (1 answer)", "c/d (3 answers)"}) || got[0].hint == "" {
		t.Errorf("got %+v, want one group of both invalid identities", got)
	}
}

func TestNoticesAreGroupedByText(t *testing.T) {
	t.Parallel()
	nodes := []Node{{Identity: "a", Notices: []string{"x", "y"}}, {Identity: "b"}, {Identity: "c", Notices: []string{"y"}}}
	got := rendered(t, 0, func(p *Page) { groups(p, "Warnings", notices(nodes), Warn, "") })
	if diff := cmp.Diff(lines("Warnings", "  2 × a, c: y", "  a: x", ""), got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestEqualPlansAreShownOnce(t *testing.T) {
	t.Parallel()
	plan := func(note string) *Plan {
		return &Plan{Steps: []PlanStep{{"jwt", ""}, {"configure", note}}, Unchecked: []string{"the CSR", "the key"}, Configuration: map[string]string{"b": "2", "a": "1"}}
	}
	nodes := []Node{{Identity: "c", Plan: plan("later")}, {Identity: "a", Plan: plan("")}, {Identity: "b", Plan: plan("")}, {Identity: "none"}}
	nodes[1].Plan.Configuration, nodes[2].Plan.Configuration = nil, nil
	nodes[1].Plan.Unchecked, nodes[2].Plan.Unchecked = nil, nil
	want := lines("Plan for 2 nodes: a, b", "  STEP", "  jwt", "  configure", "",
		"Plan for 1 node: c", "  STEP       NOTE", "  jwt", "  configure  later", "  Not checked: the CSR, the key",
		"  Configuration that would be sent:", "    a = 1", "    b = 2", "")
	if diff := cmp.Diff(want, rendered(t, 0, func(p *Page) { plans(p, nodes) })); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestCausesOfAReportAreFoundById(t *testing.T) {
	t.Parallel()
	if c, known := causeOf("no_reply"); !known || !errors.Is(c.err, provision.ErrNoReply) {
		t.Errorf("got %v, %v, want the row of no_reply", c, known)
	}
	for _, id := range []string{"", otherCause, "no such cause"} {
		if c, known := causeOf(id); known {
			t.Errorf("%q: got %v, want no row", id, c)
		}
	}
}
