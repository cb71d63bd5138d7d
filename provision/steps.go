// Package provision knows how a node is brought into service: the sequence of
// one node, the calls it makes, the helper, the credentials it checks and
// gives, and the bounded run over many nodes. It does not know terminals,
// files of metrics or flags: it tells events.
package provision

import (
	"context"
	"time"

	"choria-provision/config"
)

// effect is how far a step goes: what a dry run may do, what a stop lets finish
// and when a record must say that the node is ours depend on it.
type effect int

const (
	readOnly effect = iota // reads; leaves no trace
	advisory               // takes the node's lock, or runs the helper
	mutates                // alters the node, or needs what only an alteration gives
	commits                // completes a change: done even while stopping
)

// step is one row of the sequence. run returns the outcome that ends the
// sequence, or proceed.
type step struct {
	name    string
	effect  effect
	enabled func(*config.Config) bool
	run     func(*node, context.Context) (Outcome, error)
	// wanted reports whether the helper's answer gives the step anything to do; nil:
	// the step does not depend on it.
	wanted func(*found) bool
}

// sequence is everything that happens to one node, in this order.
var sequence = []step{
	{ageStep, readOnly, always, (*node).refuseStale, nil},
	{"jwt", advisory, withJWT, (*node).fetchJWT, nil},
	{"verify jwt", advisory, withJWT, (*node).verifyJWT, nil},
	{"ed25519", mutates, withED25519, (*node).requestKey, nil},
	{inventoryStep, readOnly, always, (*node).fetchInventory, nil},
	{"csr", mutates, withPKI, (*node).requestCSR, nil},
	{"verify csr", mutates, withPKI, (*node).verifyCSR, nil},
	{"helper", advisory, always, (*node).consultHelper, nil},
	{"server jwt", mutates, withED25519, (*node).issueServerJWT, (*found).configures},
	{"encrypt key", mutates, always, (*node).encryptKey, (*found).sendsKey},
	{"upgrade", mutates, withUpgrades, (*node).upgrade, (*found).upgrades},
	{"configure", mutates, always, (*node).configure, (*found).configures},
	{restartStep, commits, always, (*node).restart, (*found).configures},
}

func always(*config.Config) bool         { return true }
func withJWT(c *config.Config) bool      { return c.Features.JWT }
func withED25519(c *config.Config) bool  { return c.Features.ED25519 }
func withPKI(c *config.Config) bool      { return c.Features.PKI }
func withUpgrades(c *config.Config) bool { return c.Features.Upgrades }

// configures reports whether the node gets a configuration: its release is not
// changed first.
func (f *found) configures() bool { return !f.upgrading }
func (f *found) sendsKey() bool   { return f.answer.Key != "" && !f.upgrading }
func (f *found) upgrades() bool   { return f.answer.Upgrade != "" }

// provisionToAnswer takes the node through the sequence until it has answered a call
// or a step ends it.
func (n *node) provisionToAnswer(ctx context.Context) (Outcome, error) {
	outcome, err := n.walk(ctx, func() bool { return n.answered })
	if n.answered {
		n.seen = time.Now()
	}
	return outcome, err
}

// provisionOn takes the node from there to the end of the sequence. What it said may
// have become outdated while it waited for a worker.
func (n *node) provisionOn(ctx context.Context) (Outcome, error) {
	if _, err := n.refuseStale(ctx); err != nil {
		n.result.Step = ageStep
		return proceed, err
	}
	return n.walk(ctx, func() bool { return false })
}

const (
	ageStep       = "age"
	inventoryStep = "inventory"
)

// walk does one step after the other until one ends the sequence or handover
// reports that the rest is done later.
func (n *node) walk(ctx context.Context, handover func() bool) (Outcome, error) {
	for n.next < len(sequence) && !handover() {
		s := sequence[n.next]
		n.next++
		if !s.enabled(n.cfg) {
			continue
		}
		keyed := n.hasKeys()
		outcome, err := n.enter(ctx, s)
		if outcome == proceed && n.mayHaveRestarted(s, keyed, err) {
			err = n.repeat(s, err)
		}
		if outcome != proceed || err != nil {
			return outcome, err
		}
		n.away = false
	}
	return n.completed(), nil
}

// enter does a step if it may be done: a dry run leaves steps out, a stop ends the
// sequence, and the record says that the node is ours before it is changed.
func (n *node) enter(ctx context.Context, s step) (Outcome, error) {
	n.result.Step, n.finishing = s.name, s.effect == commits
	if !n.mode.does(n, s) {
		return proceed, nil
	}
	if n.stopping() {
		return proceed, ErrStopped
	}
	if s.effect == mutates {
		if err := n.markInstalling(); err != nil {
			return proceed, err
		}
	}
	return n.runStep(ctx, s)
}

// completed is the outcome once no step is left.
func (n *node) completed() Outcome {
	if n.next < len(sequence) {
		return proceed
	}
	n.result.Step = ""
	return n.mode.outcome(Provisioned)
}

func (n *node) runStep(ctx context.Context, s step) (Outcome, error) {
	started := time.Now()
	n.emit(StepStarted{n.identity, s.name})
	outcome, err := s.run(n, ctx)
	took := time.Since(started)
	n.result.Steps = append(n.result.Steps, StepTime{s.name, took})
	n.emit(StepDone{Node: n.identity, Step: s.name, Took: took, Err: err})
	n.mode.done(n, s, outcome != proceed || err != nil)
	return outcome, err
}
