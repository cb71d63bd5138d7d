package provision

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// maxRepeats is how often the sequence of one node starts again.
const maxRepeats = 3

// Announcements tell nodes at work that they announced a start: a node that
// restarts between two calls answers the next one as if nothing had been.
type Announcements struct {
	nodes sync.Map // identity -> *atomic.Bool
}

// Started has the sequence of a node that is at work start again, when the node
// made a key that it may have lost.
func (a *Announcements) Started(identity string) {
	if announced, ok := a.nodes.Load(identity); ok {
		announced.(*atomic.Bool).Store(true)
	}
}

// follow sets announced when the node announces a start, until the returned
// function is called.
func (a *Announcements) follow(identity string, announced *atomic.Bool) func() {
	if a == nil {
		return func() {}
	}
	a.nodes.Store(identity, announced)
	return func() { a.nodes.CompareAndDelete(identity, announced) }
}

// hasKeys reports whether the node made a key that it is sent credentials for.
func (n *node) hasKeys() bool {
	return n.proof.reply.ECDHPublic != "" || n.key.public != nil || n.csr.asked
}

// csrLost reports whether err took the reply to a certificate request. It is asked
// for once: each request makes a new key.
func (n *node) csrLost(err error) bool {
	return n.csr.asked && n.csr.reply.CSR == "" && has(err, unheard) && !has(err, unsent)
}

// mayHaveRestarted reports whether the node may have restarted since it made its
// key, which it had before this step when keyed is true: an attempt got no reply,
// or found the node or the broker away, and the node does the step now, or refuses
// it for what it lost; or it announced a start. One without a disk comes back with
// no key, and credentials for the key that it had would lock it out for good.
func (n *node) mayHaveRestarted(done step, keyed bool, err error) bool {
	announced := n.announced.Swap(false) && n.hasKeys()
	switch {
	case n.csrLost(err):
		return true
	case !announced && !(n.away && keyed):
		return false
	case err == nil:
		return done.effect != commits
	default:
		return has(err, refusal) && !has(err, final) && !errors.Is(err, ErrUpgrade)
	}
}

// repeat goes back to the first step. The error is that of a node that stays away
// in each pass. Anyone in the network can announce a start, so that announcements
// alone fail no node.
func (n *node) repeat(done step, err error) error {
	if n.repeats == maxRepeats {
		if err == nil && n.away {
			return fmt.Errorf("%w: replies were lost in each of %d passes through the sequence", ErrNoReply, maxRepeats+1)
		}
		return err
	}
	n.warn("the node may have restarted without the key that it made: a reply was lost, or it announced a start; the sequence starts again")
	if done.effect == commits {
		n.note(false) // it refused the restart
	}
	if !n.csrLost(err) {
		n.seen = time.Now()
	}
	n.repeats++
	n.next = 0
	n.found = found{}
	return nil
}
