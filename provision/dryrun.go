package provision

import "choria-provision/provision/helper"

// DryRun says that nothing may change, on nodes or on disk, and how far it may
// look: RunHelper adds the steps that take a node's provisioning lock to read
// from it, and the helper.
type DryRun struct {
	On, RunHelper bool
}

// leavesOut tells the steps a dry run does not do.
func (d DryRun) leavesOut(e effect) bool {
	if d.RunHelper {
		return e > advisory
	}
	return e > readOnly
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

// plan notes a step that is left out. What comes after a helper that was not
// asked may not come at all.
func (n *node) plan(s step) {
	if n.result.Plan == nil {
		n.result.Plan = &Plan{}
	}
	note := ""
	switch {
	case n.upgrading && s.name != "upgrade", // comes after the helper, which said so
		s.name == "encrypt key" && n.asked && n.answer.Key == "",
		s.name == "upgrade" && n.asked && n.answer.Upgrade == "":
		return
	case afterHelper(s) && !n.asked:
		note = noteHelper
	}
	n.result.Plan.Steps = append(n.result.Plan.Steps, PlannedStep{s.name, note})
	if !afterHelper(s) {
		n.result.Plan.Unchecked = append(n.result.Plan.Unchecked, s.name)
	}
}

// planDone notes a step that was done, and after the helper what would be sent.
func (n *node) planDone(s step, ended bool) {
	if n.result.Plan == nil {
		n.result.Plan = &Plan{}
	}
	n.result.Plan.Steps = append(n.result.Plan.Steps, PlannedStep{s.name, noteDone})
	if s.name != helperStep {
		return
	}
	n.asked = true
	if !ended && !n.upgrading {
		n.result.Plan.Configuration = helper.Redacted(n.answer.Configuration)
	}
}

// helperStep is the row after which everything depends on the site's answer.
const helperStep = "helper"

func afterHelper(s step) bool {
	for i := len(sequence) - 1; i >= 0 && sequence[i].name != helperStep; i-- {
		if sequence[i].name == s.name {
			return true
		}
	}
	return false
}
