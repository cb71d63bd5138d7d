package provision

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/choria-io/go-choria/backoff"
	wire "github.com/choria-io/go-choria/providers/agent/mcorpc/golang/provision"
)

// RPC talks to nodes. Request sends one request to one node and returns every
// reply that came, none included; the context bounds how long it waits. action
// is agent#action, in is encoded as JSON.
type RPC interface {
	Request(ctx context.Context, node, action string, in any) ([]Reply, error)
}

// Reply is what a node answered: its status and its data, still encoded.
type Reply struct {
	OK      bool
	Message string
	Data    json.RawMessage
}

// action is one thing a node can be asked: its name, how often it is tried,
// and the types of its question and answer.
type action[In, Out any] struct {
	name  string
	tries int
}

// inventoryRequest has no inputs; inventoryReply is kept as it came, since the
// helper gets all of it.
type (
	inventoryRequest struct{}
	inventoryReply   = json.RawMessage
)

var (
	jwt         = action[wire.JWTRequest, wire.JWTReply]{"choria_provision#jwt", 3}
	gen25519    = action[wire.ED25519Request, wire.ED25519Reply]{"choria_provision#gen25519", 5}
	inventory   = action[inventoryRequest, inventoryReply]{"rpcutil#inventory", 5}
	gencsr      = action[wire.CSRRequest, wire.CSRReply]{"choria_provision#gencsr", 1}
	update      = action[wire.ReleaseUpdateRequest, wire.Reply]{"choria_provision#release_update", 3}
	configure   = action[wire.ConfigureRequest, wire.Reply]{"choria_provision#configure", 5}
	restart     = action[wire.RestartRequest, wire.Reply]{"choria_provision#restart", 3}
	shutdown    = action[wire.ShutdownRequest, wire.Reply]{"choria_provision#shutdown", 3}
	reprovision = action[wire.ReprovisionRequest, wire.Reply]{"choria_provision#reprovision", 3}
)

// ddlTimeout is how long an agent may take, from the DDLs go-choria carries.
func ddlTimeout(action string) time.Duration {
	if action == inventory.name {
		return 2 * time.Second
	}
	return 20 * time.Second
}

// call asks one node and takes exactly one good reply.
func call[In, Out any](ctx context.Context, n *node, a action[In, Out], in In) (out Out, err error) {
	err = n.try(ctx, a.name, a.tries, func(ctx context.Context) error {
		replies, err := n.rpc.Request(ctx, n.id, a.name, in)
		switch {
		case err != nil:
			return err
		case len(replies) == 0:
			return ErrNoReply
		case len(replies) > 1:
			return ErrTwins
		case !replies[0].OK:
			return &Refused{a.name, replies[0].Message}
		}
		out, err = decode[Out](replies[0].Data)
		return err
	})
	return out, err
}

// decode reads a node's answer into its type.
func decode[Out any](data json.RawMessage) (out Out, err error) {
	if len(data) == 0 {
		return out, fmt.Errorf("%w: no data", ErrNonsense)
	}
	if err := json.Unmarshal(data, &out); err != nil {
		return out, fmt.Errorf("%w: %w", ErrNonsense, err)
	}
	return out, nil
}

// try makes up to tries attempts, each within its own time, and returns the
// last attempt's error. Pause and leadership are asked before every attempt; a
// stop lets the attempt under way end and starts no other, unless the step
// finishes a change.
func (n *node) try(ctx context.Context, action string, tries int, attempt func(context.Context) error) error {
	var last error
	for number := 1; number <= tries; number++ {
		if err := n.awaitAllowed(ctx, number > 1); err != nil {
			return withLastAttempt(err, last)
		}
		last = n.attempt(ctx, action, number, attempt)
		switch {
		case last == nil:
			n.answered = true
			return nil
		case ctx.Err() != nil:
			return withLastAttempt(n.ended(ctx), last)
		case n.connected != nil && errors.Is(last, ErrNetwork):
			n.away = true // a power cut takes broker and node
			number--      // it was not sent: that was no attempt
			continue
		}
		n.away = n.away || has(last, unheard)
		if has(last, final) || number == tries {
			n.tell(CallFailed{n.id, action, last})
			return last
		}
		n.replyLost = n.replyLost || errors.Is(last, ErrNoReply)
		n.rest(ctx, backoff.Default.Duration(number))
	}
	return last
}

// awaitAllowed waits for the broker and returns why no attempt may be made.
func (n *node) awaitAllowed(ctx context.Context, again bool) error {
	if err := n.awaitBroker(ctx); err != nil {
		return err
	}
	return n.checkAllowed(again)
}

func (n *node) attempt(ctx context.Context, action string, number int, do func(context.Context) error) error {
	limit := n.cfg.RPCTimeout.Duration
	if limit == 0 {
		limit = ddlTimeout(action) + n.cfg.DiscoveryTimeout.Duration
	}
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()

	started := time.Now()
	err := do(bounded)
	if has(err, unsent) {
		return err
	}
	n.result.Attempts++
	n.tell(Attempt{Node: n.id, Action: action, Number: number, Took: time.Since(started), Err: err})
	return err
}

// rest waits between attempts, no longer than there is a reason to.
func (n *node) rest(ctx context.Context, pause time.Duration) {
	stop := n.stop.Done()
	if n.finishing {
		stop = nil
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-stop:
	case <-ctx.Done():
	}
}

// withLastAttempt keeps the real error of the attempts when something else ended them.
func withLastAttempt(ended, last error) error {
	if last == nil || errors.Is(last, context.Canceled) {
		return ended
	}
	return fmt.Errorf("%w; the last attempt: %w", ended, last)
}
