package commands

import (
	"errors"
	"slices"
	"strings"
	"time"

	"choria-provision/output"
	"choria-provision/provision"
	"choria-provision/provision/installstate"
)

// nodeState is what stands between a node and simply being done. The texts are
// part of the JSON document.
type nodeState string

const (
	stateWorking     nodeState = "at work"     // a process holds its lock
	stateUnusable    nodeState = "unusable"    // its record cannot be used
	stateResetting   nodeState = "resetting"   // a reset was not finished
	stateFailing     nodeState = "failing"     // the last run failed on it
	stateRefused     nodeState = "refused"     // it belongs to another installation
	stateWaiting     nodeState = "waiting"     // the helper put it off
	stateInterrupted nodeState = "interrupted" // an installation stopped half way
	stateHeld        nodeState = "held"        // left alone for a moment
	stateShutDown    nodeState = "shut down"   // on the helper's request
)

// stateOrder is how status shows them: what needs a person stands first.
var stateOrder = []nodeState{
	stateUnusable, stateResetting, stateRefused, stateFailing, stateInterrupted, stateWaiting, stateHeld, stateShutDown, stateWorking,
}

// nodeStatus is one node that is not simply complete. Texts are escaped.
type nodeStatus struct {
	Identity  string      `json:"identity"`
	State     nodeState   `json:"state"`
	Since     time.Time   `json:"since,omitzero"`
	Step      string      `json:"step,omitempty"`   // where the last run ended with it
	Why       string      `json:"why,omitempty"`    // the error, or the helper's message
	Advice    string      `json:"advice,omitempty"` // what to do about it
	HeldUntil time.Time   `json:"held_until,omitzero"`
	Holder    *runningNow `json:"holder,omitempty"` // who is at work on it
}

// nodeStates puts records, locks and the last runs' reports together.
func nodeStates(entries []installstate.Entry, reports []hostReport, now time.Time) []nodeStatus {
	last := lastNodes(reports)
	var states []nodeStatus
	for _, entry := range entries {
		name := output.Escape(entry.Identity)
		seen := last[name]
		if entry.Record.Updated.After(seen.end) { // a session worked on it since
			seen.node = output.Node{}
		}
		delete(last, name)
		if s, ok := withRecord(entry, seen.node, now); ok {
			states = append(states, s)
		}
	}
	for name, seen := range last {
		if s, ok := withoutRecord(name, seen.node); ok {
			s.Since = seen.end
			states = append(states, s)
		}
	}
	slices.SortFunc(states, func(a, b nodeStatus) int {
		if d := slices.Index(stateOrder, a.State) - slices.Index(stateOrder, b.State); d != 0 {
			return d
		}
		return strings.Compare(a.Identity, b.Identity)
	})
	return states
}

// withRecord is false for a node that is simply complete.
func withRecord(entry installstate.Entry, node output.Node, now time.Time) (nodeStatus, bool) {
	s := nodeStatus{Identity: output.Escape(entry.Identity), Since: entry.Record.Updated}
	if entry.Record.Held(now) {
		s.HeldUntil = entry.Record.HoldUntil
	}
	switch {
	case entry.Locked:
		s.State, s.Since = stateWorking, entry.Holder.Since
		s.Holder = &runningNow{entry.Holder.PID, output.Escape(entry.Holder.Host), entry.Holder.Since}
	case entry.Err != nil:
		s.State = stateUnusable
		s.Why, s.Advice = unusableBecause(entry.Err)
	case entry.Record.Phase == installstate.Resetting:
		s.State, s.Advice = stateResetting, "`"+installstate.ResetCommand(entry.Identity)+"` finishes it"
	case !entry.Record.ShutDown.IsZero():
		s.State, s.Since, s.Why = stateShutDown, entry.Record.ShutDown, node.Message
		s.Advice = "a run provisions it when it returns"
	case s.told(node):
	case entry.Record.Phase == installstate.Installing:
		s.State, s.Advice = stateInterrupted, resumeAdvice(entry.Record)
	case !s.HeldUntil.IsZero():
		s.State = stateHeld
	default:
		return s, false
	}
	return s, true
}

// resumeAdvice knows that a node whose restart was asked for may not wait again.
func resumeAdvice(r installstate.Record) string {
	if r.RestartRequested.IsZero() {
		return "the next run resumes it"
	}
	return "it was asked to restart and its answer was not heard: the next run sees whether it left, or resumes it"
}

// unusableBecause leaves out what the line says already.
func unusableBecause(err error) (why, advice string) {
	var record *installstate.RecordError
	if !errors.As(err, &record) {
		return output.Escape(err.Error()), ""
	}
	return output.Escape(record.Detail), output.Escape(record.Hint)
}

func withoutRecord(name string, node output.Node) (nodeStatus, bool) {
	s := nodeStatus{Identity: name}
	return s, s.told(node)
}

// told takes over what the last run told of the node, if that still stands.
func (s *nodeStatus) told(node output.Node) bool {
	switch {
	case node.Outcome == string(provision.Failed) && node.Cause == causeStopped:
		s.State, s.Why, s.Advice = stateInterrupted, node.Error, "the next run resumes it"
	case node.Outcome == string(provision.Failed):
		s.State, s.Why, s.Advice = stateFailing, node.Error, node.Hint
	case node.Outcome == string(provision.Skipped) && node.Cause == causeOwned:
		s.State, s.Why, s.Advice = stateRefused, node.Error, node.Hint
	case node.Outcome == string(provision.Deferred):
		s.State, s.Why, s.Advice = stateWaiting, node.Message, "a later run asks the helper again"
	default:
		return false
	}
	s.Step = node.Step
	return true
}

// The ids of causes in a report that say more than the outcome does.
const (
	causeStopped = "stopped"
	causeOwned   = "owned"
)
