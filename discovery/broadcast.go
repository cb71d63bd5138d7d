// Package discovery knows who waits to be provisioned: it asks by broadcast,
// and admits each identity once. It does not know helpers, records or calls to
// single nodes.
package discovery

import (
	"context"
	"time"

	"choria-provision/internal/network"
)

// agent runs on every node that waits, and on no other.
const agent = "choria_provision"

// quiet ends a broadcast this long after the last reply; it is go-choria's own
// sliding window (providers/discovery/broadcast).
const quiet = 300 * time.Millisecond

// patience is how many times its timeout a broadcast may last while replies
// still come in: a large fleet is heard to the end, a flood is not.
const patience = 10

// Broadcaster asks the provisioning collective who runs an agent. The senders
// come as they answered, one that answered twice is there twice.
type Broadcaster interface {
	Broadcast(ctx context.Context, agent string, w network.Window) ([]string, error)
}

// Poll asks once and returns one sighting for each valid identity, see Admit. It
// tells a Refused for each other one, and ends with a Cycle.
func Poll(ctx context.Context, b Broadcaster, timeout time.Duration, tell func(any)) ([]Sighting, error) {
	started := time.Now()
	senders, err := b.Broadcast(ctx, agent, network.Window{First: timeout, Quiet: quiet, Total: patience * timeout})
	seen := sift(senders, ByBroadcast, tell)
	tell(Cycle{Answers: len(senders), Took: time.Since(started), Err: err})
	return seen, err
}

// Broadcast is Poll for who admits all that was seen: it tells that too.
func Broadcast(ctx context.Context, b Broadcaster, timeout time.Duration, tell func(any)) ([]Sighting, error) {
	seen, err := Poll(ctx, b, timeout, tell)
	tellAdmitted(seen, tell)
	return seen, err
}
