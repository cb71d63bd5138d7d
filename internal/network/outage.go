package network

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/sirupsen/logrus"
)

// ErrDisconnected reports that a request was not sent, since there is no
// connection to the broker.
var ErrDisconnected = errors.New("the connection to the broker is lost")

// ReturnTime is how long nodes may take to come back after the broker did:
// go-choria's servers wait up to 20 s between two attempts.
const ReturnTime = 30 * time.Second

// Hooks are told how the connection fares. They are called one at a time.
type Hooks struct {
	Lost     func(error) // once for each time it breaks
	Regained func()
	Refused  func(error) // the broker refused our credentials twice: no repeat will help
}

// outages knows when the connection broke and when it came back.
type outages struct {
	mu       sync.Mutex
	hooks    Hooks
	lost     time.Time // zero while connected
	regained time.Time // zero until it came back once
	told     uint64    // reconnects that NATS had counted by then
	dropped  error     // why we broke it ourselves
	refusals int
}

// logging returns the hooks of a connection that nobody follows.
func logging(log *logrus.Entry) Hooks {
	return Hooks{
		Lost:     func(err error) { log.Warnf("the connection to the broker was lost: %v; it is tried again", err) },
		Regained: func() { log.Warn("the connection to the broker is there again") },
		Refused:  func(err error) { log.Errorf("the broker does not let us in again: %v", err) },
	}
}

// Follow tells the hooks from now on, in place of the log.
func (c *Conn) Follow(h Hooks) {
	c.outages.mu.Lock()
	defer c.outages.mu.Unlock()
	c.outages.hooks = h
}

// handlers have NATS tell what happens to the connection.
func (c *Conn) handlers() []nats.Option {
	o := c.outages
	return []nats.Option{
		nats.DisconnectErrHandler(func(nc *nats.Conn, err error) {
			if !nc.IsClosed() { // else this process ended it
				o.broke(err)
			}
		}),
		nats.ReconnectHandler(func(nc *nats.Conn) { o.mended(nc.Stats().Reconnects) }),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			c.denials.note(err)
			o.failed(err)
		}),
	}
}

func (o *outages) broke(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.lost = time.Now()
	switch {
	case o.dropped != nil:
		err, o.dropped = o.dropped, nil
	case err == nil:
		err = errors.New("closed by the broker")
	}
	o.hooks.Lost(err)
}

func (o *outages) mended(reconnects uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.lost, o.regained, o.refusals, o.told = time.Time{}, time.Now(), 0, reconnects
	o.hooks.Regained()
}

func (o *outages) failed(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !errors.Is(err, nats.ErrAuthorization) && !errors.Is(err, nats.ErrAuthExpired) {
		return
	}
	if o.refusals++; o.refusals == 2 {
		o.hooks.Refused(fmt.Errorf("%w: %w", ErrUnauthorized, err))
	}
}

// since returns when the connection broke; one that broke just now may not have
// been told of yet.
func (o *outages) since() time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.lost.IsZero() {
		return time.Now()
	}
	return o.lost
}

// nodesReturn reports whether nodes that are not connected may only not have
// come back yet. reconnects is what NATS counts now: requests may be sent before
// we are told that the connection is there again.
func (o *outages) nodesReturn(reconnects uint64) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return reconnects > o.told || !o.regained.IsZero() && time.Since(o.regained) < ReturnTime
}

// Connected reports whether there is a connection at this moment.
func (c *Conn) Connected() bool { return c.nc.IsConnected() }

// Await returns nil when there is a connection, at once or when it comes back.
// ErrDisconnected says that it did not within patience, which is counted from
// when it broke: of many that wait, none waits longer. Otherwise the error is
// ctx's.
func (c *Conn) Await(ctx context.Context, patience time.Duration) error {
	if c.nc.IsConnected() {
		return nil
	}
	changed := c.nc.StatusChanged(nats.CONNECTED, nats.CLOSED)
	defer c.nc.RemoveStatusListener(changed)
	since := c.outages.since()
	limit := time.NewTimer(time.Until(since.Add(patience)))
	defer limit.Stop()
	for {
		switch { // asked after the listener was there: no change is missed
		case c.nc.IsConnected():
			return nil
		case c.nc.IsClosed():
			return fmt.Errorf("%w: it was closed", ErrDisconnected)
		}
		select {
		case <-changed:
		case <-limit.C:
			return fmt.Errorf("%w: it did not come back in %s", ErrDisconnected, time.Since(since).Round(time.Second))
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Drop breaks the connection with all that it has not sent, and has it made
// again. It is for a process that has lost the right to act: what it had under
// way on this machine leaves it no more.
func (c *Conn) Drop(reason error) {
	c.outages.mu.Lock()
	c.outages.dropped = reason
	c.outages.mu.Unlock()
	c.dialer.drop()
}
