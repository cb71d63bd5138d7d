package output

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"choria-provision/discovery"
	"choria-provision/provision"
	"choria-provision/provision/trust"

	"github.com/google/go-cmp/cmp"
)

// at is an event some time after the beginning of a run.
type at struct {
	after time.Duration
	event any
}

func done(identity string, outcome provision.Outcome) provision.NodeDone {
	return provision.NodeDone{Result: provision.Result{Node: identity, Outcome: outcome}}
}

func TestLiveViewFollowsARun(t *testing.T) {
	t.Parallel()
	seen := discovery.Admitted{Sighting: discovery.Sighting{Identity: "a"}}
	begin := at{0, provision.RunStarted{Nodes: 4}}
	called := func(after time.Duration, identity string) at { return at{after, provision.NodeStarted{Node: identity}} }
	assigned := func(after time.Duration, identity string) at {
		return at{after, provision.NodeAssigned{Node: identity}}
	}
	const empty, quarter, half = "░░░░░░░░░░░░░░░░░░░░", "█████░░░░░░░░░░░░░░░", "██████████░░░░░░░░░░"
	tests := []struct {
		name   string
		events []at
		now    time.Duration
		height int
		want   []string
	}{
		{"discovery", nil, 0, 10, []string{"Discovering: 0 found, 0.0s"}},
		{"found nodes", []at{{0, seen}, {0, seen}}, 1500 * time.Millisecond, 10, []string{"Discovering: 2 found, 1.5s"}},
		{"a run begins", []at{begin}, 2 * time.Second, 10, []string{empty + " 0 of 4, 2.0s"}},
		{"first calls", []at{begin, called(time.Second, "a"), called(0, "b")}, 2 * time.Second, 10, []string{empty + " 0 of 4, 2.0s", "  2 at their first call, the longest for 2.0s"}},
		{"a worker", []at{begin, called(0, "a"), assigned(time.Second, "a")}, 2 * time.Second, 10, []string{empty + " 0 of 4, 2.0s", "  a  answered       1.0s"}},
		{"its step", []at{begin, called(0, "a"), assigned(0, "a"), {time.Second, provision.StepStarted{Node: "a", Step: "csr"}}}, 3 * time.Second, 10, []string{empty + " 0 of 4, 3.0s", "  a  csr            2.0s"}},
		{"a step before a worker is not shown", []at{begin, called(0, "a"), {0, provision.StepStarted{Node: "a", Step: "age"}}}, time.Second, 10, []string{empty + " 0 of 4, 1.0s", "  1 at their first call, the longest for 1.0s"}},
		{"the longest at its step is first", []at{begin, assigned(time.Second, "a"), assigned(0, "longer")}, 2 * time.Second, 10, []string{empty + " 0 of 4, 2.0s", "  longer  answered       2.0s", "  a       answered       1.0s"}},
		{"equal ones by name", []at{begin, assigned(0, "b"), assigned(0, "a")}, time.Second, 10, []string{empty + " 0 of 4, 1.0s", "  a  answered       1.0s", "  b  answered       1.0s"}},
		{"more than fit", []at{begin, assigned(0, "a"), assigned(1, "b"), assigned(2, "c")}, time.Second, 3, []string{empty + " 0 of 4, 1.0s", "  a  answered       1.0s", "  and 2 more at work"}},
		{"a node is done", []at{begin, assigned(0, "a"), {time.Second, done("a", provision.Provisioned)}}, 2 * time.Second, 10, []string{quarter + " 1 of 4, 2.0s, about 6.0s left", "  1 provisioned"}},
		{"done without a worker", []at{begin, called(0, "a"), {time.Second, done("a", provision.Deferred)}}, 2 * time.Second, 10, []string{quarter + " 1 of 4, 2.0s, about 6.0s left", "  1 deferred"}},
		{"skipped before its first call", []at{begin, {0, done("a", provision.Skipped)}}, time.Second, 10, []string{empty + " 0 of 4, 1.0s", "  1 skipped"}},
		{"outcomes in their order", []at{begin, assigned(0, "a"), assigned(0, "b"), {0, done("b", provision.Skipped)}, {0, done("a", provision.Provisioned)}}, 2 * time.Second, 10, []string{half + " 2 of 4, 2.0s, about 2.0s left", "  1 provisioned  1 skipped"}},
		{"the last failure", []at{begin, {0, failed("a", "jwt", provision.ErrNoReply)[1]}, {0, failed("b", "csr", trust.ErrCSR)[1]}}, time.Second, 10, []string{empty + " 0 of 4, 1.0s", "  2 failed", "  last failure b at csr: " + trust.ErrCSR.Error()}},
		{"silent nodes are not in the estimate", []at{begin, assigned(0, "a"), {0, done("a", provision.Provisioned)}, called(0, "b")}, 3 * time.Second, 10, []string{quarter + " 1 of 4, 3.0s, about 6.0s left without the 1 silent", "  1 provisioned", "  1 at their first call, the longest for 3.0s"}},
		{"no estimate with silent nodes alone", []at{{0, provision.RunStarted{Nodes: 2}}, assigned(0, "a"), {0, done("a", provision.Provisioned)}, called(0, "b")}, 3 * time.Second, 10, []string{half + " 1 of 2, 3.0s", "  1 provisioned", "  1 at their first call, the longest for 3.0s"}},
		{"a second run adds to the first", []at{begin, {0, provision.RunStarted{Nodes: 4}}}, time.Second, 10, []string{empty + " 0 of 8, 1.0s"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			m := newProgress(began)
			for _, e := range tt.events {
				m.observe(e.event, began.Add(e.after))
			}
			p := NewPage(&strings.Builder{}, PageOptions{Color: "never", Width: 80})
			if diff := cmp.Diff(tt.want, m.frame(p, began.Add(tt.now), tt.height)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestReportCountsARun(t *testing.T) {
	t.Parallel()
	type counts struct{ Answers, Admitted, Refused, Nodes, Unhandled, Left int }
	admitted := discovery.Admitted{Sighting: discovery.Sighting{Identity: "a"}}
	duplicate := provision.NodeDone{Result: provision.Result{Node: "twin", Outcome: provision.Failed, Step: "discovery", Err: located("twin", "discovery", &discovery.Duplicate{Count: 3})}}
	tests := []struct {
		name   string
		events []any
		want   counts
	}{
		{"nothing", nil, counts{}},
		{"two discoveries", []any{discovery.Cycle{Answers: 3}, admitted, discovery.Cycle{Answers: 4}, admitted}, counts{Answers: 7, Admitted: 2}},
		{"an invalid identity", []any{discovery.Refused{Identity: "a b", Count: 2, Err: discovery.ErrInvalidIdentity}}, counts{Refused: 1}},
		{"a duplicate is a node and a refused sighting", []any{duplicate}, counts{Refused: 1, Nodes: 1}},
		{"a run that was cut off", []any{provision.RunStarted{Nodes: 3, Left: 2}, provision.NodeStarted{Node: "a"}, done("a", provision.Provisioned), provision.NodeStarted{Node: "b"}}, counts{Nodes: 1, Unhandled: 2, Left: 2}},
		{"nodes skipped before the first call are not planned", []any{provision.RunStarted{Nodes: 1}, done("held", provision.Skipped), provision.NodeStarted{Node: "a"}, done("a", provision.Failed)}, counts{Nodes: 2}},
		{"two runs in one report", []any{provision.RunStarted{Nodes: 2, Left: 1}, provision.RunStarted{Nodes: 3, Left: 1}}, counts{Unhandled: 5, Left: 2}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			doc := documentOf(tt.events, End{})
			got := counts{doc.Discovery.Answers, doc.Discovery.Admitted, len(doc.Discovery.Refused), doc.Totals.Nodes, doc.Totals.Unhandled, doc.Totals.Left}
			if got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
			sum := 0
			for _, n := range doc.Totals.Outcomes {
				sum += n
			}
			if sum != doc.Totals.Nodes || len(doc.Totals.Outcomes) != len(provision.Outcomes) || len(doc.Nodes) != doc.Totals.Nodes {
				t.Errorf("got outcomes %v of %d nodes, want every outcome, and their sum", doc.Totals.Outcomes, doc.Totals.Nodes)
			}
		})
	}
}

func TestReportOfARunThatCouldNotStart(t *testing.T) {
	t.Parallel()
	err := fmt.Errorf("dialing: %w", provision.ErrNetwork)
	doc := documentOf(nil, End{ExitCode: 1, Err: err})
	want := Run{ID: "4f1c", Command: "once", Site: "site1", Version: "1.2.3", Started: began, Duration: 12.3, ExitCode: 1, Error: err.Error(), Cause: "network"}
	_, want.Hint = Hint(err)
	if diff := cmp.Diff(want, doc.Run); diff != "" || want.Hint == "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestNodeOfAResult(t *testing.T) {
	t.Parallel()
	started := began.In(time.FixedZone("east", 7200))
	got := nodeOf(provision.Result{
		Node: "web1\x1b", Outcome: provision.Failed, Step: "csr", Err: located("web1", "csr", fmt.Errorf("%w: too\nmuch", trust.ErrCSR)),
		Message: "bell\a", Attempts: 3, Steps: []provision.StepTime{{Step: "jwt", Took: 1234567 * time.Microsecond}}, Started: started, Took: 2 * time.Second,
		Version: strings.Repeat("v", 300), Upgrade: "1\x00", Notices: []string{"a\tb"},
		Plan: &provision.Plan{Steps: []provision.PlannedStep{{Step: "csr", Note: "n\n"}}, Configuration: map[string]string{"k\n": "v\n"}},
	})
	at := began.UTC()
	want := Node{
		Identity: `web1\x1b`, Outcome: "failed", Step: "csr", Error: trust.ErrCSR.Error() + `: too\nmuch`, Cause: "csr",
		Message: `bell\a`, Attempts: 3, Steps: []NodeStep{{"jwt", 1.235}}, Started: &at, Duration: 2,
		Version: strings.Repeat("v", 255) + "…", Upgrade: `1\x00`, Notices: []string{`a\tb`},
		Plan: &Plan{Steps: []PlanStep{{"csr", `n\n`}}, Unchecked: []string{}, Configuration: map[string]string{`k\n`: `v\n`}},
	}
	_, want.Hint = Hint(trust.ErrCSR)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if never := nodeOf(provision.Result{Node: "a", Outcome: provision.Skipped}); never.Started != nil || never.Plan != nil || never.Steps == nil {
		t.Errorf("got %+v, want no start, no plan and a list of steps", never)
	}
}

func TestFinishedReportDoesNotChange(t *testing.T) {
	t.Parallel()
	r := newReport()
	late := []any{
		discovery.Cycle{Answers: 5, Took: time.Second}, discovery.Admitted{},
		discovery.Refused{Identity: "a b", Err: discovery.ErrInvalidIdentity},
		provision.RunStarted{Nodes: 3, Left: 1}, done("web1", provision.Failed),
	}
	for _, event := range smallRun() {
		r.Observe(event)
	}
	doc := r.Finish(End{Finished: began})
	before := jsonOf(t, doc)
	for _, event := range late {
		r.Observe(event)
	}
	if diff := cmp.Diff(before, jsonOf(t, doc)); diff != "" {
		t.Errorf("got another document after late events (-before +after):\n%s", diff)
	}
	if again := r.Finish(End{Finished: began}); again.Totals.Nodes != doc.Totals.Nodes+1 || again.Discovery.Answers != doc.Discovery.Answers+5 {
		t.Errorf("got %+v, want the late events in a report that is finished later", again.Totals)
	}
}

func TestReportMayBeFinishedWhileEventsArrive(t *testing.T) {
	t.Parallel()
	r := newReport()
	var group sync.WaitGroup
	for i := range 4 {
		group.Go(func() {
			for n := range 20 {
				for _, event := range result(fmt.Sprintf("n%d-%d", i, n), provision.Provisioned, nil) {
					r.Observe(event)
				}
			}
		})
		group.Go(func() {
			doc := r.Finish(End{Finished: began})
			if len(doc.Nodes) != doc.Totals.Nodes || doc.Totals.Outcomes["provisioned"] != doc.Totals.Nodes {
				t.Errorf("got %d nodes and totals %+v, want them to agree", len(doc.Nodes), doc.Totals)
			}
		})
	}
	group.Wait()
	if doc := r.Finish(End{Finished: began}); doc.Totals.Nodes != 80 {
		t.Errorf("got %d nodes, want 80", doc.Totals.Nodes)
	}
}
