package provision

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"choria-provision/config"

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

// client calls one node, under the rules of one run.
type client struct {
	identity string
	rpc      RPC
	cfg      *config.Config
	// connected waits for a broker that is away; nil: there is none to wait for.
	connected func(ctx context.Context, finishing bool) error
	allowed   func() error            // nil while provisioning is neither paused nor led elsewhere
	emit      func(any)               // takes the events
	hide      func(secrets ...string) // nil: nothing that is shown repeats the node
	stop      context.Context         // ends when no new step may start

	finishing   bool // the step under way completes a change
	configuring bool // the node gets its configuration, and has it if a reply was lost
	answered    bool // a call was answered well
	replyLost   bool // an attempt ended without the node being heard
	away        bool // likewise, or it was not connected, in the step under way
	attempts    int
}

// token returns the site's token, which may have been rotated since the last call.
func (c *client) token() (string, error) {
	token, err := c.cfg.Token.Reveal()
	if err != nil {
		return "", fmt.Errorf("token: %w", err)
	}
	if c.hide != nil {
		c.hide(token)
	}
	return token, nil
}

// checkAllowed is asked before anything that others notice: each attempt, the helper,
// the record that begins, and the note of a restart. stoppable says that a stop ends
// the work here.
func (c *client) checkAllowed(stoppable bool) error {
	if err := c.allowed(); err != nil {
		return err
	}
	if stoppable && c.stopping() {
		return ErrStopped
	}
	return nil
}

// stopping reports that no step may start. A step that completes a change goes on.
func (c *client) stopping() bool { return !c.finishing && c.stop.Err() != nil }

// ended names why a context is over: time or a stop, never "context canceled".
func (c *client) ended(ctx context.Context) error {
	if errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		return fmt.Errorf("%w: its time was up", ErrStopped)
	}
	return ErrStopped
}

// leftUnheard reports that the node did what makes it leave, and left before its
// reply was sent or heard: an agent may end its server at once.
func (c *client) leftUnheard(err error) bool { return errors.Is(err, ErrGone) && c.replyLost }

// call asks one node and takes exactly one good reply.
func call[In, Out any](ctx context.Context, c *client, a action[In, Out], in In) (out Out, err error) {
	err = c.try(ctx, a.name, a.tries, func(ctx context.Context) error {
		replies, err := c.rpc.Request(ctx, c.identity, a.name, in)
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
func (c *client) try(ctx context.Context, action string, tries int, attempt func(context.Context) error) error {
	var last error
	for number := 1; number <= tries; number++ {
		if err := c.awaitAllowed(ctx, number > 1); err != nil {
			return withLastAttempt(err, last)
		}
		last = c.attempt(ctx, action, number, attempt)
		switch {
		case last == nil:
			c.answered = true
			return nil
		case ctx.Err() != nil:
			return withLastAttempt(c.ended(ctx), last)
		case c.connected != nil && errors.Is(last, ErrNetwork):
			c.away = true // a power cut takes broker and node
			number--      // it was not sent: that was no attempt
			continue
		}
		c.away = c.away || has(last, unheard)
		if has(last, final) || number == tries {
			c.emit(CallFailed{c.identity, action, last})
			return last
		}
		c.replyLost = c.replyLost || errors.Is(last, ErrNoReply)
		c.waitBackoff(ctx, backoff.Default.Duration(number))
	}
	return last
}

// awaitAllowed waits for the broker and returns why no attempt may be made.
func (c *client) awaitAllowed(ctx context.Context, again bool) error {
	if err := c.awaitBroker(ctx); err != nil {
		return err
	}
	return c.checkAllowed(again)
}

func (c *client) attempt(ctx context.Context, action string, number int, do func(context.Context) error) error {
	limit := c.cfg.RPCTimeout.Duration
	if limit == 0 {
		limit = ddlTimeout(action) + c.cfg.DiscoveryTimeout.Duration
	}
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()

	started := time.Now()
	err := do(bounded)
	if has(err, unsent) {
		return err
	}
	c.attempts++
	c.emit(Attempt{Node: c.identity, Action: action, Number: number, Took: time.Since(started), Err: err})
	return err
}

// waitBackoff waits between attempts, no longer than there is a reason to.
func (c *client) waitBackoff(ctx context.Context, pause time.Duration) {
	stop := c.stop.Done()
	if c.finishing {
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

// outage is how long a broker is away that may have gone down together with the
// node: no server is back from a restart sooner.
const outage = time.Second

// owed reports whether the node has its configuration, as far as is known: only
// its restart is missing, and a broker that is away is waited for longer.
func (c *client) owed() bool { return c.finishing || c.configuring && c.replyLost }

// awaitBroker waits for a broker that is away, and for the end of the run.
func (c *client) awaitBroker(ctx context.Context) error {
	if c.connected == nil {
		return nil
	}
	bounded, cancel := context.WithCancel(ctx)
	defer cancel()
	if !c.finishing {
		defer context.AfterFunc(c.stop, cancel)()
	}
	began := time.Now()
	err := c.connected(bounded, c.owed())
	c.away = c.away || time.Since(began) >= outage
	if bounded.Err() != nil && err != nil {
		return c.ended(ctx)
	}
	return err
}
