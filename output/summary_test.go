package output

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"choria-provision/discovery"
	"choria-provision/provision"

	"github.com/charmbracelet/x/ansi"
)

func summaryOf(doc Document, o PageOptions) string {
	var text bytes.Buffer
	Summary(NewPage(&text, o), doc)
	return text.String()
}

func TestSummary(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		doc  Document
	}{
		{"small", documentOf(smallRun(), End{ExitCode: 3})},
		{"large", documentOf(largeRun(), End{ExitCode: 3})},
		{"dry", dryDocument()},
		{"empty", documentOf([]any{discovery.Cycle{}}, End{})},
		{"network", documentOf([]any{discovery.Cycle{Err: provision.ErrNetwork}}, End{ExitCode: 1, Err: provision.ErrNetwork})},
	}
	for _, tt := range tests {
		for _, width := range []int{60, 100, 160} {
			t.Run(fmt.Sprint(tt.name, width), func(t *testing.T) {
				t.Parallel()
				got := summaryOf(tt.doc, PageOptions{Color: "auto", Width: width})
				golden(t, fmt.Sprintf("summary-%s-%d.golden", tt.name, width), got)
				noEscapes(t, got)
				for line := range strings.Lines(got) {
					if w := ansi.StringWidth(line); w > width {
						t.Errorf("got %d columns, want at most %d: %s", w, width, line)
					}
				}
			})
		}
	}
}

func TestSummaryInAPipeCutsNothing(t *testing.T) {
	t.Parallel()
	got := summaryOf(documentOf(smallRun(), End{ExitCode: 3}), PageOptions{Color: "auto"})
	if strings.Contains(got, "…") || !strings.Contains(got, "does not fit on a line of an ordinary terminal\n") {
		t.Errorf("got a cut text, want all of it:\n%s", got)
	}
	noEscapes(t, got)
}

func TestColor(t *testing.T) {
	t.Parallel()
	doc := documentOf(smallRun(), End{ExitCode: 3})
	colored := summaryOf(doc, PageOptions{Color: "always", Width: 100})
	if !strings.Contains(colored, "\x1b[") {
		t.Fatal("got no colour, want it")
	}
	golden(t, "summary-color.golden", strings.ReplaceAll(colored, "\x1b", "ESC"))
	plain := summaryOf(doc, PageOptions{Color: "never", Width: 100})
	if got := ansi.Strip(colored); got != plain {
		t.Errorf("got other text in colour:\n%s", got)
	}
	noEscapes(t, plain)
}

func TestEqualFailuresTakeFewLines(t *testing.T) {
	t.Parallel()
	one := summaryOf(documentOf(largeRun(), End{}), PageOptions{Width: 100})
	if n := strings.Count(one, "db"); n > fewNames+1 {
		t.Errorf("got %d of 500 equal failures named, want at most %d", n, fewNames+1)
	}
	if n := strings.Count(one, "\n"); n > 20 {
		t.Errorf("got %d lines for 1503 nodes, want at most 20", n)
	}
}

func TestEveryOutcomeHasAToneAndAPlace(t *testing.T) {
	t.Parallel()
	place := map[provision.Outcome]bool{}
	for _, outcome := range tableOrder {
		place[outcome] = true
	}
	for _, outcome := range provision.Outcomes {
		if outcomeTone(string(outcome)) == Plain {
			t.Errorf("got no tone for %s, want one", outcome)
		}
		if !place[outcome] {
			t.Errorf("got no place in the table for %s, want one", outcome)
		}
	}
}

func TestNothingToDo(t *testing.T) {
	t.Parallel()
	skip := func(cause error) []any {
		return []any{provision.RunStarted{}, provision.NodeDone{Result: provision.Result{Node: "web1", Outcome: provision.Skipped, Err: cause}}}
	}
	tests := []struct {
		name   string
		events []any
		end    End
		want   bool
	}{
		{"nobody", nil, End{}, true},
		{"only held nodes", skip(provision.ErrHeld), End{}, true},
		{"only nodes that others work on", skip(provision.ErrBusy), End{}, true},
		{"a node of another installation", skip(provision.ErrOwned), End{}, false},
		{"a provisioned node", result("web1", provision.Provisioned, nil), End{}, false},
		{"twins", []any{provision.NodeDone{Result: provision.Result{Node: "web1", Outcome: provision.Failed, Step: "discovery", Err: &discovery.Duplicate{Count: 2}}}}, End{}, false},
		{"a failed run", nil, End{ExitCode: 1, Err: provision.ErrNetwork}, false},
		{"an interrupted run", []any{provision.RunStarted{Nodes: 3}}, End{}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := NothingToDo(documentOf(tt.events, tt.end)); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

// TestManyFailuresPointAtStatus has 60 failures that each read differently: no
// group holds two of them.
func TestManyFailuresPointAtStatus(t *testing.T) {
	t.Parallel()
	events := []any{provision.RunStarted{}}
	for i := range 60 {
		err := &provision.Error{Node: fmt.Sprintf("web%02d", i), Step: "helper", Err: fmt.Errorf("trouble of its own, %d", i)}
		events = append(events, provision.NodeDone{Result: provision.Result{Node: err.Node, Step: err.Step, Outcome: provision.Failed, Err: err}})
	}
	doc := documentOf(events, End{ExitCode: 3})
	got := summaryOf(doc, PageOptions{})
	if n := strings.Count(got, "trouble of its own"); n != fewNodes {
		t.Errorf("got %d failures in full, want %d:\n%s", n, fewNodes, got)
	}
	for _, want := range []string{
		"Not listed: 60 failed. `provision status` lists what failed; `--output json` and last-run.json list every node.\n",
		"  50 more nodes with 50 other errors: `provision status` lists them\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("got no %q:\n%s", want, got)
		}
	}
	doc.Run.DryRun = true // leaves nothing for status
	if got := summaryOf(doc, PageOptions{}); strings.Contains(got, "status") || !strings.Contains(got, "50 other errors: `--output json` lists them\n") {
		t.Errorf("a dry run, got:\n%s", got)
	}
}
