package output

import (
	"errors"
	"maps"
	"sync"
	"time"

	"choria-provision/discovery"
	"choria-provision/provision"
)

// RunInfo describes a run before it starts.
type RunInfo struct {
	ID      string // unique
	Command string // once, node
	Site    string
	Version string // of this program
	DryRun  bool
	Started time.Time
}

// End describes the end of a run. Err is the reason why the run could not start or
// not finish; it is nil when only nodes failed.
type End struct {
	ExitCode int
	Err      error
	Finished time.Time
}

// Report observes a run and collects its Document. Its methods may be called from
// many goroutines.
type Report struct {
	mu      sync.Mutex
	doc     Document
	started time.Time
	planned int             // nodes to be worked on
	handled int             // of those, how many are done
	busy    map[string]bool // of those, the started ones that are not done
}

// NewReport returns the report of a run before its first event.
func NewReport(info RunInfo) *Report {
	outcomes := make(map[string]int, len(provision.Outcomes))
	for _, outcome := range provision.Outcomes {
		outcomes[string(outcome)] = 0
	}
	return &Report{started: info.Started, busy: map[string]bool{}, doc: Document{
		SchemaVersion: SchemaVersion,
		Run: Run{
			ID: info.ID, Command: info.Command, Site: info.Site, Version: info.Version,
			DryRun: info.DryRun, Started: info.Started.UTC(),
		},
		Discovery: Discovery{Refused: []Refusal{}},
		Nodes:     []Node{},
		Totals:    Totals{Outcomes: outcomes},
	}}
}

// Observe implements Observer.
func (r *Report) Observe(event any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch e := event.(type) {
	case discovery.Cycle:
		r.doc.Discovery.Answers += e.Answers
		r.doc.Discovery.Duration += Seconds(e.Took)
	case discovery.Admitted:
		r.doc.Discovery.Admitted++
	case discovery.Refused:
		r.doc.Discovery.Refused = append(r.doc.Discovery.Refused, refusal(e))
	case provision.RunStarted:
		r.planned += e.Nodes
		r.doc.Totals.Left += e.Left
	case provision.NodeStarted:
		r.busy[e.Node] = true
	case provision.NodeDone:
		if r.busy[e.Node] { // nodes skipped before their first call are not in planned
			delete(r.busy, e.Node)
			r.handled++
		}
		r.doc.Nodes = append(r.doc.Nodes, nodeOf(e.Result))
		if duplicate := (*discovery.Duplicate)(nil); errors.As(e.Err, &duplicate) {
			r.doc.Discovery.Refused = append(r.doc.Discovery.Refused, refusal(discovery.Refused{Identity: e.Node, Count: duplicate.Count, Err: duplicate.Unwrap()}))
		}
		r.doc.Totals.Outcomes[string(e.Outcome)]++
		r.doc.Totals.Nodes++
	}
}

// Finish returns the document of a run with this end. Events that arrive later are
// not in it.
func (r *Report) Finish(end End) Document {
	r.mu.Lock()
	defer r.mu.Unlock()
	doc := r.doc
	doc.Run.ExitCode = end.ExitCode
	doc.Run.Duration = Seconds(end.Finished.Sub(r.started))
	doc.Run.Error = escapeError(end.Err)
	doc.Run.Cause, doc.Run.Hint = Hint(end.Err)
	doc.Totals.Unhandled = max(0, r.planned-r.handled)
	doc.Totals.Outcomes = maps.Clone(doc.Totals.Outcomes) // later events count in the original
	return doc
}

func refusal(e discovery.Refused) Refusal {
	id, hint := Hint(e.Err)
	return Refusal{
		Identity: EscapeTo(e.Identity, maxName), Count: e.Count,
		Cause: id, Error: escapeError(e.Err), Hint: hint,
	}
}

// maxName bounds, in runes, an identity that is shown; valid ones are shorter.
const maxName = 255

func nodeOf(r provision.Result) Node {
	id, hint := Hint(r.Err)
	n := Node{
		Identity: EscapeTo(r.Node, maxName), Outcome: string(r.Outcome), Step: r.Step,
		Error: escapeError(withoutLocation(r.Err)), Cause: id, Hint: hint, Message: EscapeTo(r.Message, maxText),
		Attempts: r.Attempts, Duration: Seconds(r.Took), Steps: []NodeStep{},
		Version: EscapeTo(r.Version, maxName), Upgrade: EscapeTo(r.Upgrade, maxName),
		Plan: planOf(r.Plan),
	}
	if !r.Started.IsZero() {
		started := r.Started.UTC()
		n.Started = &started
	}
	for _, s := range r.Steps {
		n.Steps = append(n.Steps, NodeStep{s.Step, Seconds(s.Took)})
	}
	for _, text := range r.Notices {
		n.Notices = append(n.Notices, EscapeTo(text, maxText))
	}
	return n
}

// withoutLocation returns err without its node and step, which a report has in
// fields of their own.
func withoutLocation(err error) error {
	var located *provision.Error
	if errors.As(err, &located) {
		return located.Err
	}
	return err
}

func planOf(p *provision.Plan) *Plan {
	if p == nil {
		return nil
	}
	plan := &Plan{Steps: []PlanStep{}, Unchecked: []string{}}
	for _, s := range p.Steps {
		plan.Steps = append(plan.Steps, PlanStep{s.Step, EscapeTo(s.Note, maxText)})
	}
	for _, text := range p.Unchecked {
		plan.Unchecked = append(plan.Unchecked, EscapeTo(text, maxText))
	}
	if p.Configuration != nil {
		plan.Configuration = make(map[string]string, len(p.Configuration))
		for key, value := range p.Configuration {
			plan.Configuration[EscapeTo(key, maxName)] = EscapeTo(value, maxText)
		}
	}
	return plan
}
