package network

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	"github.com/choria-io/go-choria/choria"
	"github.com/nats-io/nats.go"
)

// Window says when a broadcast is over: quiet after the last reply, first
// before there was any, total in all cases. Where the first reply takes long,
// over a slow network or on a busy machine, the others may be as far apart:
// quiet is at least twice what it took.
type Window struct {
	First, Quiet, Total time.Duration
}

// Broadcast asks every node that runs an agent to name itself and returns the
// senders in the order they answered; one that answers twice is there twice.
// When the broker says that nobody listens it is over after Window.Quiet: a
// node can say so too, and must not silence the others. When none answered and
// the broker tells why none could, that is the error (ErrForbidden,
// ErrProduction).
func (c *Conn) Broadcast(ctx context.Context, agent string, w Window) ([]string, error) {
	defer c.listenForOthers()()
	sub, err := c.nc.SubscribeSync(inboxOf(c.sender, c.host))
	if err != nil {
		return nil, fmt.Errorf("subscribing to replies: %w", err)
	}
	defer func() { _ = sub.Unsubscribe() }() // fails only on a connection that is gone
	if err := sub.SetPendingLimits(-1, pendingBytes); err != nil {
		return nil, fmt.Errorf("subscribing to replies: %w", err)
	}

	// providers/discovery/broadcast of go-choria: the body is "ping" in base64
	body := []byte(base64.StdEncoding.EncodeToString([]byte("ping")))
	x := &exchange{}
	l := letter{agent: "discovery", runs: agent, body: body, replyTo: sub.Subject}
	target, before := choria.AgentBroadcastTarget(c.sender.collective, "discovery"), c.nc.LastError()
	c.denials.forget(target)
	if err := c.send(ctx, x, l, target); err != nil {
		return nil, err
	}
	senders, err := c.gather(ctx, sub, x, w)
	if err == nil && len(senders) == 0 {
		err = c.whySilent(ctx, target, sub.Subject, before)
	}
	return senders, err
}

// gather decodes replies as they come: what is not decoded yet waits in the
// subscription, however many it is.
func (c *Conn) gather(ctx context.Context, sub *nats.Subscription, x *exchange, w Window) (senders []string, err error) {
	total, cancel := context.WithTimeoutCause(ctx, w.Total, errTimeout)
	defer cancel()
	denied := false
	asked := time.Now()
	until := asked.Add(w.First)
	for {
		m, err := next(total, sub, until)
		switch {
		case err == nil:
			if reply, odd := c.decode(x, m.Data); odd == nil {
				if len(senders) == 0 {
					w.Quiet = max(w.Quiet, 2*time.Since(asked))
				}
				senders = append(senders, reply.Sender)
				until = time.Now().Add(w.Quiet)
			}
		case errors.Is(err, nats.ErrNoResponders):
			if !denied && len(senders) == 0 {
				denied, until = true, time.Now().Add(w.Quiet)
			}
		case errors.Is(err, nats.ErrSlowConsumer):
			c.fw.Logger("network").Warnf("more than %d MiB of discovery replies were unread: some are lost", pendingBytes>>20)
		case errors.Is(err, errQuiet) && c.moreWaits(total, sub):
			until = time.Now().Add(w.Quiet)
		case errors.Is(err, errQuiet), errors.Is(err, errTimeout):
			return senders, nil
		default:
			return senders, err
		}
	}
}

var errQuiet = errors.New("no more replies")

// next waits for a message until then and says in its error what ended that.
func next(ctx context.Context, sub *nats.Subscription, until time.Time) (*nats.Msg, error) {
	ctx, cancel := context.WithDeadlineCause(ctx, until, errQuiet)
	defer cancel()
	m, err := sub.NextMsgWithContext(ctx)
	if err != nil && ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return m, err
}

// moreWaits asks the broker for all it has for us before silence counts: on a
// busy machine replies can be there that were not read yet.
func (c *Conn) moreWaits(ctx context.Context, sub *nats.Subscription) bool {
	if err := c.nc.FlushWithContext(ctx); err != nil {
		return false
	}
	messages, _, err := sub.Pending()
	return err == nil && messages > 0
}
