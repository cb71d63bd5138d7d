package provision

import (
	"fmt"

	"choria-provision/provision/helper"
)

// mode is what becomes of the steps of a sequence and of its outcome.
type mode interface {
	does(n *node, s step) bool        // whether the step is done; one that is not is noted
	done(n *node, s step, ended bool) // after each step that was done
	outcome(reached Outcome) Outcome  // the outcome in place of one that was reached
	refusal(n *node, err error) error // what remains of a check that refused an answer
}

// realMode does everything.
type realMode struct{}

func (realMode) does(*node, step) bool            { return true }
func (realMode) done(*node, step, bool)           {}
func (realMode) outcome(reached Outcome) Outcome  { return reached }
func (realMode) refusal(_ *node, err error) error { return err }

// DryRun says that nothing may change, on nodes or on disk, and how far it may
// look: RunHelper adds the steps that take a node's provisioning lock to read
// from it, and the helper.
type DryRun struct {
	On, RunHelper bool
}

func (d DryRun) mode() mode {
	if d.On {
		return d
	}
	return realMode{}
}

// does leaves steps out by their effect, and notes what a real run would do. What
// depends on a helper that was not consulted may not happen at all.
func (d DryRun) does(n *node, s step) bool {
	limit := readOnly
	if d.RunHelper {
		limit = advisory
	}
	if s.effect <= limit {
		return true
	}
	note := ""
	switch {
	case s.wanted != nil && n.hasAnswer && !s.wanted(&n.found):
		return false
	case s.wanted != nil && !n.hasAnswer:
		note = noteHelper
	}
	plan := n.plan()
	plan.Steps = append(plan.Steps, PlannedStep{s.name, note})
	if s.wanted == nil {
		plan.Unchecked = append(plan.Unchecked, s.name)
	}
	return false
}

// done notes the step, and what would be sent once there is an answer.
func (d DryRun) done(n *node, s step, ended bool) {
	plan := n.plan()
	plan.Steps = append(plan.Steps, PlannedStep{s.name, noteDone})
	if n.hasAnswer && !ended && !n.upgrading {
		plan.Configuration = helper.Redacted(n.answer.Configuration)
	}
}

func (DryRun) outcome(Outcome) Outcome { return Planned }

// refusal turns one into a warning where the helper had neither request nor key:
// what the answer lacks may be just that.
func (DryRun) refusal(n *node, err error) error {
	if err == nil || !n.cfg.Features.PKI && !n.cfg.Features.ED25519 {
		return err
	}
	n.warn(fmt.Sprintf("a real run would refuse this answer, unless it is another one once the node has made its key: %v", err))
	return nil
}

func (n *node) plan() *Plan {
	if n.result.Plan == nil {
		n.result.Plan = &Plan{}
	}
	return n.result.Plan
}

// allowed lists the actions a dry run may call.
func (d DryRun) allowed() []string {
	if d.RunHelper {
		return []string{inventory.name, jwt.name}
	}
	return []string{inventory.name}
}

// The notes of planned steps.
const (
	noteDone   = "done in this dry run"
	noteHelper = "hangs on the helper's answer"
)
