package provision

import "time"

// Outcome is how the work on one node ended. The texts are part of the JSON
// report and of the metric choria_provisioner_nodes.
type Outcome string

// The outcomes of reference section 4; the zero Outcome means: go on.
const (
	proceed     Outcome = ""
	Provisioned Outcome = "provisioned" // restart was accepted
	Upgraded    Outcome = "upgraded"    // release_update was accepted
	Deferred    Outcome = "deferred"    // the helper said not now
	Shutdown    Outcome = "shutdown"    // the helper asked for it
	Skipped     Outcome = "skipped"     // not this run's to work on
	Failed      Outcome = "failed"      // a step failed
	Planned     Outcome = "planned"     // dry run: would be worked on
)

// Outcomes lists every outcome in the order reports show them.
var Outcomes = []Outcome{Provisioned, Upgraded, Deferred, Shutdown, Planned, Skipped, Failed}

// Result is what a run knows of one node when it is done with it.
type Result struct {
	Node     string
	Outcome  Outcome
	Step     string // where it ended, empty when the sequence went through
	Err      error  // the cause of Failed and Skipped
	Message  string // what the helper said with defer or shutdown; why a node is skipped
	Attempts int    // RPC attempts in all
	Steps    []StepTime
	Started  time.Time
	Took     time.Duration
	Version  string // the node's release, from its inventory
	Upgrade  string // the release it was sent to, or would be
	Notices  []string
	Plan     *Plan // dry run only
}

// StepTime is one step that ran.
type StepTime struct {
	Step string
	Took time.Duration
}

// Plan is what a dry run found out about one node.
type Plan struct {
	Steps         []PlannedStep
	Unchecked     []string          // what was not looked at, in words
	Configuration map[string]string // with --run-helper: what would be sent, secrets masked
}

// PlannedStep is a step the node would go through.
type PlannedStep struct {
	Step string
	Note string // "done in this dry run", "hangs on the helper's answer", or empty
}

// The events provision tells. Texts that come from nodes or helpers may hold
// anything: who shows them escapes them.
type (
	// RunStarted opens a run over nodes.
	RunStarted struct {
		Nodes   int // to be worked on
		Left    int // beyond the limit: for the next run
		Workers int
	}
	// NodeStarted is told when a node's first call is about to be made.
	NodeStarted struct{ Node string }
	// NodeAssigned is told when a worker takes a node that has answered its first
	// call. One that never answers has no worker.
	NodeAssigned struct{ Node string }
	// StepStarted is told before a step runs.
	StepStarted struct{ Node, Step string }
	// StepDone is told after a step ran.
	StepDone struct {
		Node, Step string
		Took       time.Duration
		Err        error
	}
	// Attempt is one try of one call.
	Attempt struct {
		Node, Action string // Action is agent#action
		Number       int    // from 1
		Took         time.Duration
		Err          error
	}
	// CallFailed is a call whose last attempt failed.
	CallFailed struct {
		Node, Action string
		Err          error
	}
	// HelperDone is one run of the helper.
	HelperDone struct {
		Node string
		Took time.Duration
		Err  error
	}
	// AnswerRefused is an answer that the helper gave and the node does not get.
	AnswerRefused struct {
		Node string
		Err  error
	}
	// ShutdownAccepted is a node that agreed to shut down as the helper asked.
	ShutdownAccepted struct{ Node string }
	// Notice is a warning about one node that does not end its sequence.
	Notice struct{ Node, Step, Text string }
	// NodeDone ends the work on a node.
	NodeDone struct{ Result }
)
