package output

import "time"

// SchemaVersion is the version of Document; it rises when a reader of an older
// one would misunderstand a newer one. New fields do not raise it.
const SchemaVersion = 1

// Document is the report of one run: what `--output json` prints and
// last-run.json holds. docs/report.schema.json describes it for others. All
// durations are seconds; all texts are escaped and bounded.
type Document struct {
	SchemaVersion int       `json:"schema_version"`
	Run           Run       `json:"run"`
	Discovery     Discovery `json:"discovery"`
	Nodes         []Node    `json:"nodes"` // in the order they were done

	// Earlier are nodes that this run did not come to and whose last end, in a
	// run before it, was not a good one: they fail, or were put off.
	Earlier []Node `json:"earlier,omitempty"`

	Totals Totals `json:"totals"`
}

// Run is the run as a whole. Error, Cause and Advice say why it could not be
// done or not to the end; a node's failure is not among them.
type Run struct {
	ID       string    `json:"id"`
	Command  string    `json:"command"` // once, node
	Site     string    `json:"site"`
	Version  string    `json:"version"` // of this program
	Started  time.Time `json:"started"`
	Duration float64   `json:"duration"`
	ExitCode int       `json:"exit_code"`
	DryRun   bool      `json:"dry_run"`
	Error    string    `json:"error,omitempty"`
	Cause    string    `json:"cause,omitempty"`
	Advice   string    `json:"advice,omitempty"`
}

// Discovery is who was found. Admitted counts those that were seen once under
// a valid name; --match, --limit and records come after it.
type Discovery struct {
	Answers  int       `json:"answers"`
	Admitted int       `json:"admitted"`
	Refused  []Refusal `json:"refused"`
	Duration float64   `json:"duration"`
}

// Refusal is a sighting that was not admitted.
type Refusal struct {
	Identity string `json:"identity"` // escaped: it may not be a name at all
	Count    int    `json:"count"`    // machines that gave it
	Cause    string `json:"cause"`
	Error    string `json:"error"`
	Advice   string `json:"advice,omitempty"`
}

// Node is what became of one node. Step is where it ended, empty when the
// whole sequence went through.
type Node struct {
	Identity string     `json:"identity"`
	Outcome  string     `json:"outcome"`
	Step     string     `json:"step,omitempty"`
	Error    string     `json:"error,omitempty"`
	Cause    string     `json:"cause,omitempty"` // the id of a known cause, or "other"
	Advice   string     `json:"advice,omitempty"`
	Message  string     `json:"message,omitempty"` // the helper's, with deferred and shutdown
	Attempts int        `json:"attempts"`          // tries of calls to the node, in all
	Started  *time.Time `json:"started,omitempty"`
	Duration float64    `json:"duration"`
	Steps    []NodeStep `json:"steps"`             // those that ran, in order
	Version  string     `json:"version,omitempty"` // the node's own
	Upgrade  string     `json:"upgrade,omitempty"` // what it was sent to
	Notices  []string   `json:"notices,omitempty"`
	Plan     *Plan      `json:"plan,omitempty"` // dry runs only
}

// NodeStep is one step that ran and how long it took.
type NodeStep struct {
	Step     string  `json:"step"`
	Duration float64 `json:"duration"`
}

// Plan is what a dry run found out: the steps a real run would take, what was
// not looked at, and with --run-helper the configuration it would send, its
// secrets masked.
type Plan struct {
	Steps         []PlanStep        `json:"steps"`
	Unchecked     []string          `json:"unchecked"`
	Configuration map[string]string `json:"configuration,omitempty"`
}

// PlanStep is a step the node would go through.
type PlanStep struct {
	Step string `json:"step"`
	Note string `json:"note,omitempty"`
}

// Totals counts nodes. Outcomes holds every outcome, at 0 too. Unhandled are
// nodes the run meant to work on and did not come to, Left those beyond the
// limit.
type Totals struct {
	Nodes     int            `json:"nodes"`
	Unhandled int            `json:"unhandled"`
	Left      int            `json:"left"`
	Outcomes  map[string]int `json:"outcomes"`
}
