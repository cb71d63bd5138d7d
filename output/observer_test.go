package output

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
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

func newReport() *Report {
	return NewReport(RunInfo{ID: "4f1c", Command: "once", Site: "site1", Version: "1.2.3", Started: began})
}

func located(node, step string, err error) error {
	return &provision.Error{Node: node, Step: step, Err: err}
}

// result is a node that a worker took and finished.
func result(node string, outcome provision.Outcome, change func(*provision.Result)) []any {
	r := provision.Result{
		Node: node, Outcome: outcome, Attempts: 4, Version: "0.29.4", Started: began.Add(time.Second), Took: 3200 * time.Millisecond,
		Steps: []provision.StepTime{{Step: "inventory", Took: 200 * time.Millisecond}, {Step: "configure", Took: 3 * time.Second}},
	}
	if change != nil {
		change(&r)
	}
	return []any{provision.NodeStarted{Node: node}, provision.NodeDone{Result: r}}
}

func failed(node, step string, err error) []any {
	return result(node, provision.Failed, func(r *provision.Result) {
		r.Step, r.Err = step, located(node, step, err)
	})
}

// smallRun has every outcome a real run can have, and texts from strangers.
func smallRun() []any {
	events := []any{
		discovery.Refused{Identity: "bad\x1b[2J\u202e.example.net", Count: 1, Err: discovery.ErrInvalidIdentity},
		discovery.Cycle{Answers: 12, Took: 700 * time.Millisecond},
		provision.RunStarted{Nodes: 9, Left: 1, Workers: 4},
		provision.NodeDone{Result: provision.Result{Node: "twin.example.net", Outcome: provision.Failed, Step: "discovery", Err: located("twin.example.net", "discovery", &discovery.Duplicate{Count: 2})}},
		provision.NodeDone{Result: provision.Result{Node: "held.example.net", Outcome: provision.Skipped, Step: "record", Err: located("held.example.net", "record", fmt.Errorf("%w: for another 42s after its restart", provision.ErrHeld))}},
	}
	for _, more := range [][]any{
		result("web1.example.net", provision.Provisioned, nil),
		result("web2.example.net", provision.Provisioned, func(r *provision.Result) {
			r.Notices = []string{"the configuration does not set plugin.choria.server.provision to false: the node may come back"}
		}),
		result("old.example.net", provision.Upgraded, func(r *provision.Result) { r.Step, r.Upgrade = "upgrade", "0.30.2" }),
		result("later.example.net", provision.Deferred, func(r *provision.Result) {
			r.Step, r.Message = "helper", "not\nbefore \x1b[31mmonday"
		}),
		result("gone.example.net", provision.Shutdown, func(r *provision.Result) { r.Step, r.Message = "helper", "decommissioned" }),
		failed("db1.example.net", "configure", provision.ErrNoReply),
		failed("db2.example.net", "inventory", provision.ErrNoReply),
		failed("odd.example.net", "jwt", errors.New("something nobody expected, told in so many words that it does not fit on a line of an ordinary terminal")),
	} {
		events = append(events, more...)
	}
	return events
}

// largeRun is a fleet with 500 equal failures.
func largeRun() []any {
	events := []any{discovery.Cycle{Answers: 1503, Took: time.Second}, provision.RunStarted{Nodes: 1503, Workers: 50}}
	for i := range 500 {
		events = append(events, failed(fmt.Sprintf("db%03d.example.net", i), "configure", provision.ErrNoReply)...)
	}
	for i := range 1000 {
		events = append(events, result(fmt.Sprintf("web%03d.example.net", i), provision.Provisioned, nil)...)
	}
	for i := range 2 {
		node := fmt.Sprintf("odd%d.example.net", i)
		events = append(events, failed(node, "jwt", &provision.Refused{Action: "choria_provision#jwt", Message: fmt.Sprint("no file ", i)})...)
	}
	return append(events, result("later.example.net", provision.Deferred, func(r *provision.Result) { r.Step, r.Message = "helper", "not today" })...)
}

func documentOf(events []any, end End) Document {
	report := newReport()
	for _, event := range events {
		report.Observe(event)
	}
	if end.Finished.IsZero() {
		end.Finished = began.Add(12300 * time.Millisecond)
	}
	return report.Finish(end)
}

func noEscapes(t *testing.T, text string) {
	t.Helper()
	if i := strings.IndexFunc(text, func(r rune) bool {
		return r != '\n' && (r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 || r == '\u202e')
	}); i >= 0 {
		t.Errorf("got a control character at %q", text[i:min(len(text), i+20)])
	}
}

type recorder struct {
	inside bool // unguarded: the race detector and the check emit
	got    []any
}

func (r *recorder) Observe(event any) {
	if r.inside {
		panic("called while at work")
	}
	r.inside = true
	r.got = append(r.got, event)
	r.inside = false
}

func TestEmitCallsObserversOneAtATime(t *testing.T) {
	t.Parallel()
	var first, second recorder
	emit := Emit(&first, &second)
	var group sync.WaitGroup
	for i := range 50 {
		group.Go(func() { emit(i) })
	}
	group.Wait()
	if len(first.got) != 50 {
		t.Errorf("got %d events, want 50", len(first.got))
	}
	if diff := cmp.Diff(first.got, second.got); diff != "" {
		t.Errorf("got different orders:\n%s", diff)
	}
}
