package discovery

import "time"

// Sighting is one observation that a node waits.
type Sighting struct {
	Identity string
	Seen     time.Time
	Source   Source
	Err      error // why the node must not be provisioned (*Duplicate); nil: it may
}

// Source says how a node was seen.
type Source string

// The ways a node can come to our notice.
const (
	ByBroadcast Source = "broadcast" // it answered a broadcast discovery
	ByEvent     Source = "event"     // it published a startup lifecycle event
	ByName      Source = "name"      // an operator named it
)

// The events discovery tells.
type (
	// Cycle ends one discovery; Answers counts all replies, twins included.
	Cycle struct {
		Answers int
		Took    time.Duration
		Err     error // nil unless the discovery itself failed
	}
	// Admitted is a node that goes on to be provisioned.
	Admitted struct{ Sighting }
	// Dropped are nodes that waited and are not worked on by us after all.
	Dropped struct{ Identities []string }
	// Refused is an identity that no node can have; Err is the reason
	// (ErrInvalidIdentity, ErrQueueFull).
	Refused struct {
		Identity string // as received: may hold anything
		Count    int    // machines that gave it
		Err      error
	}
)
