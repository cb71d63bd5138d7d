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

// reach is how far a step goes: what a dry run may do, what a stop lets finish
// and when a record must say that the node is ours depend on it.
type reach int

const (
	look   reach = iota // reads; leaves no trace
	ask                 // takes the node's lock, or runs the helper
	change              // alters the node, or needs what only an alteration gives
	finish              // completes a change: done even while stopping
)

// step is one row of the sequence. run returns the outcome that ends the
// sequence, or goOn.
type step struct {
	name  string
	reach reach
	gate  func(*config.Config) bool
	run   func(*node, context.Context) (Outcome, error)
}

// sequence is everything that happens to one node, in this order.
var sequence = []step{
	{ageStep, look, always, (*node).refuseStale},
	{"jwt", ask, withJWT, (*node).takeJWT},
	{"verify jwt", ask, withJWT, (*node).verifyJWT},
	{"ed25519", change, withED25519, (*node).takeKey},
	{inventoryStep, look, always, (*node).takeInventory},
	{"csr", change, withPKI, (*node).takeCSR},
	{"verify csr", change, withPKI, (*node).verifyCSR},
	{helperStep, ask, always, (*node).askHelper},
	{"server jwt", change, withED25519, (*node).issueServerJWT},
	{"encrypt key", change, always, (*node).encryptKey},
	{"upgrade", change, withUpgrades, (*node).upgrade},
	{"configure", change, always, (*node).configure},
	{restartStep, finish, always, (*node).restart},
}

func always(*config.Config) bool         { return true }
func withJWT(c *config.Config) bool      { return c.Features.JWT }
func withED25519(c *config.Config) bool  { return c.Features.ED25519 }
func withPKI(c *config.Config) bool      { return c.Features.PKI }
func withUpgrades(c *config.Config) bool { return c.Features.Upgrades }

// walkToAnswer takes the node through the sequence until it has answered a call
// or a step ends it.
func (n *node) walkToAnswer(ctx context.Context) (Outcome, error) {
	outcome, err := n.walk(ctx, func() bool { return n.answered })
	if n.answered {
		n.seen = time.Now()
	}
	return outcome, err
}

// walkOn takes the node from there to the end of the sequence. What it said may
// have become outdated while it waited for a worker.
func (n *node) walkOn(ctx context.Context) (Outcome, error) {
	if _, err := n.refuseStale(ctx); err != nil {
		n.result.Step = ageStep
		return goOn, err
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
		if !s.gate(n.cfg) {
			continue
		}
		keyed := n.hasKeys()
		outcome, err := n.enter(ctx, s)
		if outcome == goOn && n.mayHaveRestarted(s, keyed, err) {
			err = n.repeat(s, err)
		}
		if outcome != goOn || err != nil {
			return outcome, err
		}
		n.away = false
	}
	return n.completed(), nil
}

// enter does a step if it may be done: a dry run leaves steps out, a stop ends the
// sequence, and the record says that the node is ours before it is changed.
func (n *node) enter(ctx context.Context, s step) (Outcome, error) {
	n.result.Step, n.finishing = s.name, s.reach == finish
	if n.dry.On && n.dry.leavesOut(s.reach) {
		n.plan(s)
		return goOn, nil
	}
	if n.stopped() {
		return goOn, ErrStopped
	}
	if s.reach == change {
		if err := n.claim(); err != nil {
			return goOn, err
		}
	}
	return n.walkOne(ctx, s)
}

// completed is the outcome once no step is left.
func (n *node) completed() Outcome {
	if n.next < len(sequence) {
		return goOn
	}
	n.result.Step = ""
	return n.unlessDry(Provisioned)
}

func (n *node) walkOne(ctx context.Context, s step) (Outcome, error) {
	started := time.Now()
	n.tell(StepStarted{n.id, s.name})
	outcome, err := s.run(n, ctx)
	took := time.Since(started)
	n.result.Steps = append(n.result.Steps, StepTime{s.name, took})
	n.tell(StepDone{Node: n.id, Step: s.name, Took: took, Err: err})
	if n.dry.On {
		n.planDone(s, outcome != goOn || err != nil)
	}
	return outcome, err
}
