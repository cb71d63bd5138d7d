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
}

// sequence is everything that happens to one node, in this order.
var sequence = []step{
	{ageStep, readOnly, always, (*node).refuseStale},
	{"jwt", advisory, withJWT, (*node).fetchJWT},
	{"verify jwt", advisory, withJWT, (*node).verifyJWT},
	{"ed25519", mutates, withED25519, (*node).requestKey},
	{inventoryStep, readOnly, always, (*node).fetchInventory},
	{"csr", mutates, withPKI, (*node).requestCSR},
	{"verify csr", mutates, withPKI, (*node).verifyCSR},
	{helperStep, advisory, always, (*node).consultHelper},
	{"server jwt", mutates, withED25519, (*node).issueServerJWT},
	{"encrypt key", mutates, always, (*node).encryptKey},
	{"upgrade", mutates, withUpgrades, (*node).upgrade},
	{"configure", mutates, always, (*node).configure},
	{restartStep, commits, always, (*node).restart},
}

func always(*config.Config) bool         { return true }
func withJWT(c *config.Config) bool      { return c.Features.JWT }
func withED25519(c *config.Config) bool  { return c.Features.ED25519 }
func withPKI(c *config.Config) bool      { return c.Features.PKI }
func withUpgrades(c *config.Config) bool { return c.Features.Upgrades }

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
	if n.dry.On && n.dry.leavesOut(s.effect) {
		n.plan(s)
		return proceed, nil
	}
	if n.stopped() {
		return proceed, ErrStopped
	}
	if s.effect == mutates {
		if err := n.claim(); err != nil {
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
	return n.unlessDry(Provisioned)
}

func (n *node) runStep(ctx context.Context, s step) (Outcome, error) {
	started := time.Now()
	n.tell(StepStarted{n.id, s.name})
	outcome, err := s.run(n, ctx)
	took := time.Since(started)
	n.result.Steps = append(n.result.Steps, StepTime{s.name, took})
	n.tell(StepDone{Node: n.id, Step: s.name, Took: took, Err: err})
	if n.dry.On {
		n.planDone(s, outcome != proceed || err != nil)
	}
	return outcome, err
}
