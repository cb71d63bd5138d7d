package provision

import (
	"errors"
	"fmt"
)

// Error says at which node and step something went wrong.
type Error struct {
	Node, Step string
	Err        error
}

func (e *Error) Error() string { return fmt.Sprintf("%s: %s: %v", e.Node, e.Step, e.Err) }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// The causes an operator treats differently. Errors that carry details unwrap
// to one of them.
var (
	// RPC
	ErrNoReply      = errors.New("the node did not answer in time")
	ErrGone         = errors.New("the node is not connected")
	ErrTwins        = errors.New("more than one machine answers to this identity")
	ErrRefused      = errors.New("the node refused the request")
	ErrToken        = errors.New("the node does not accept our token")
	ErrBusy         = errors.New("another provisioner is at work on this node")
	ErrNonsense     = errors.New("the node sent an answer that makes no sense")
	ErrPaused       = errors.New("provisioning is paused")
	ErrStopped      = errors.New("the run was stopped")
	ErrNotLeader    = errors.New("another instance leads")
	ErrNetwork      = errors.New("the broker connection failed") // nothing was sent
	ErrUnauthorized = errors.New("the node does not authorize us")
	ErrTooLarge     = errors.New("the request is larger than the broker takes")

	// upgrade
	ErrUpgrade = errors.New("the upgrade is not possible")

	// admission
	ErrHeld   = errors.New("the node is held for a moment")
	ErrStale  = errors.New("the node was last seen too long ago")
	ErrLocked = errors.New("another process of ours is at work on this node")
	ErrOwned  = errors.New("the node belongs to another installation")
	ErrRecord = errors.New("the node's record cannot be used")
	ErrState  = errors.New("the state failed")

	// ErrInService: a node that was named does not wait, and its record says that
	// its installation is complete.
	ErrInService = errors.New("the node is in service")

	// ErrResetting: an operator's reset of the node was not finished.
	ErrResetting = errors.New("a reset of the node is not finished")
)

// trait is what a cause means for the calls of a sequence and for its outcome.
type trait uint

const (
	final   trait = 1 << iota // another attempt meets the same
	refusal                   // the node was heard and did not do it
	unheard                   // no node was heard: it may have done what it was asked
	unsent                    // nothing was sent
	skips                     // says nothing against the node, which is not this run's to work on
	cutsOff                   // ended the sequence from outside
)

// traits has a row for each cause that has any. What is repeated, what becomes of
// the node and whether the run counts as interrupted are read from here alone.
var traits = []struct {
	cause error
	has   trait
}{
	{ErrNoReply, unheard},
	{ErrGone, unheard},
	{ErrTwins, final},
	{ErrRefused, refusal},
	{ErrToken, refusal | final},
	{ErrUnauthorized, refusal | final},
	{ErrBusy, refusal | final | skips},
	{ErrNonsense, final},
	{ErrTooLarge, final},

	{ErrNetwork, unsent | unheard | skips | cutsOff},
	{ErrPaused, unsent | skips | cutsOff},
	{ErrNotLeader, unsent | skips | cutsOff},
	{ErrStopped, skips | cutsOff},

	{ErrHeld, skips},
	{ErrStale, skips},
	{ErrLocked, skips},
	{ErrOwned, skips},
	{ErrResetting, skips},
	{ErrInService, skips},
}

// has reports whether one of the causes of err has the trait.
func has(err error, wanted trait) bool {
	if err == nil {
		return false
	}
	for _, row := range traits {
		if row.has&wanted != 0 && errors.Is(err, row.cause) {
			return true
		}
	}
	return false
}

// Unheard reports whether err is of a call in which no node was heard.
func Unheard(err error) bool { return has(err, unheard) }

// Refused is a reply whose status is not OK: the node's own words, which may
// hold anything.
type Refused struct {
	Action, Message string
}

func (r *Refused) Error() string { return fmt.Sprintf("%s refused: %s", r.Action, r.Message) }

// Unwrap names the cause, as far as the node's words tell it.
func (r *Refused) Unwrap() error { return refusalCause(r.Message) }

// refusalCause reads what go-choria's provision agent and its authorization say
// (providers/agent/mcorpc/golang/provision).
func refusalCause(message string) error {
	switch message {
	case "Could not obtain provisioning lock":
		return ErrBusy
	case "Incorrect provision token supplied":
		return ErrToken
	case "You are not authorized to call this agent or action":
		return ErrUnauthorized
	default:
		return ErrRefused
	}
}
