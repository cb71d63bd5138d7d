package network

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/choria-io/go-choria/choria"
	"github.com/nats-io/nats.go"
)

// The ways a request can end without a reply.
var (
	ErrNobody  = errors.New("nobody listens there") // the broker says so
	ErrNoReply = errors.New("no reply in time")     // somebody may have listened
	ErrTwins   = errors.New("an earlier request was answered twice")

	// ErrTooLarge is known before anything is sent.
	ErrTooLarge = errors.New("the request is larger than the broker takes")
)

// returnPause is the time between two requests to a node that may come back.
const returnPause = 250 * time.Millisecond

// listenOn is how long an answered request still listens: two machines of one
// name answer within this of each other, or not at all.
const listenOn = 5 * time.Second

// exchange is one request and what came back.
type exchange struct {
	token     string
	identity  string // empty: a broadcast, anybody may answer
	requestID string
	sent      time.Time     // as the request states it
	valid     time.Duration // nodes drop it when it takes longer; 0: after its time-to-live
	raw       chan []byte   // nil element: no listener
	answered  time.Time
}

// Request sends body to one agent on one node and returns its reply as soon as
// there is one, with any others that are there already. The context bounds the
// wait: ErrNoReply. ErrNobody means that no such node is connected. ErrTwins
// means that a second reply to an earlier request to this node came late.
//
// ErrDisconnected means that no node got the request: the connection is lost, or
// the node has not come back since it was.
func (c *Conn) Request(ctx context.Context, identity, agent string, body []byte) ([]Reply, error) {
	if c.sawTwins(identity) {
		return nil, ErrTwins
	}
	for {
		replies, err := c.request(ctx, identity, agent, body)
		if !errors.Is(err, ErrNobody) || !c.outages.nodesReturn(c.nc.Stats().Reconnects) {
			return replies, err
		}
		select {
		case <-time.After(returnPause):
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: the node has not come back since", ErrDisconnected)
		}
	}
}

func (c *Conn) request(ctx context.Context, identity, agent string, body []byte) ([]Reply, error) {
	x := &exchange{identity: identity, raw: make(chan []byte, 4)}
	if err := c.expect(x); err != nil {
		return nil, err
	}
	l := letter{agent: agent, runs: agent, body: body, replyTo: c.inbox + "." + x.token}
	if err := c.send(ctx, x, l, choria.NodeDirectedTarget(c.sender.collective, identity)); err != nil {
		c.forget(x)
		return nil, err
	}
	return c.collect(ctx, x)
}

// collect waits for the first acceptable reply. One that is not is passed over,
// since anybody who overheard the request can send it; but when nothing better
// comes it is the reason that is told.
func (c *Conn) collect(ctx context.Context, x *exchange) ([]Reply, error) {
	odd := ErrNoReply
	for {
		select {
		case raw := <-x.raw:
			if raw == nil {
				c.forget(x)
				return nil, ErrNobody
			}
			reply, err := c.decode(x, raw)
			if err != nil {
				odd = fmt.Errorf("%w; what came was passed over: %w", ErrNoReply, err)
				continue
			}
			return append([]Reply{reply}, c.settle(x)...), nil
		case <-ctx.Done():
			c.forget(x)
			if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return nil, ctx.Err()
			}
			if !c.nc.IsConnected() {
				return nil, fmt.Errorf("%w; the connection to the broker was lost meanwhile", odd)
			}
			return nil, c.clocks.explain(x, odd)
		}
	}
}

// settle takes the replies that came with the first, then leaves the exchange
// listening for a while.
func (c *Conn) settle(x *exchange) (more []Reply) {
	for _, raw := range c.markAnswered(x) {
		if reply, err := c.decode(x, raw); err == nil {
			more = append(more, reply)
		}
	}
	return more
}

func (c *Conn) markAnswered(x *exchange) (rest [][]byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	x.answered = time.Now()
	c.answered = append(c.answered, x)
	c.sweep(x.answered)
	for len(x.raw) > 0 {
		if raw := <-x.raw; raw != nil {
			rest = append(rest, raw)
		}
	}
	x.raw = nil
	return rest
}

func (c *Conn) sweep(now time.Time) {
	for len(c.answered) > 0 && now.Sub(c.answered[0].answered) > listenOn {
		delete(c.exchanges, c.answered[0].token)
		c.answered = c.answered[1:]
	}
	for identity, seen := range c.twins {
		if now.Sub(seen) > time.Minute {
			delete(c.twins, identity)
		}
	}
}

func (c *Conn) sawTwins(identity string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, seen := c.twins[identity]
	return seen
}

// receive hands a message to the exchange whose reply subject it came on. It
// runs on the connection's own goroutine: decoding is left to who waits.
func (c *Conn) receive(m *nats.Msg) {
	token := m.Subject[strings.LastIndexByte(m.Subject, '.')+1:]
	data := m.Data
	if isNobody(m) {
		data = nil
	} else if len(data) == 0 || len(data) > MaxReply {
		return
	}

	if x := c.deliver(token, data); x != nil && data != nil {
		if _, err := c.decode(x, data); err == nil {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.twins[x.identity] = time.Now()
		}
	}
}

// deliver hands data to an exchange that still waits, or returns the one that
// was answered already, unless its node is known for that.
func (c *Conn) deliver(token string, data []byte) *exchange {
	c.mu.Lock()
	defer c.mu.Unlock()
	x, known := c.exchanges[token]
	switch {
	case !known:
	case x.answered.IsZero():
		select {
		case x.raw <- data:
		default: // more than anybody needs to see
		}
	case c.twins[x.identity].IsZero():
		return x
	}
	return nil
}

// send seals a request whose replies come to x and publishes it while there is
// a connection: NATS keeps nothing for later.
func (c *Conn) send(ctx context.Context, x *exchange, l letter, subject string) (err error) {
	if l.id, err = c.fw.NewRequestID(); err != nil {
		return fmt.Errorf("building a request: %w", err)
	}
	x.requestID = l.id
	for {
		if err := c.Await(ctx, c.patience); err != nil {
			return unsent(ctx, err)
		}
		data, err := c.seal(ctx, x, l)
		if err != nil {
			return err
		}
		if limit := c.nc.MaxPayload(); int64(len(data)) > limit {
			return fmt.Errorf("%w: %d KiB for a message of %d KiB, its limit (max_payload) is %d KiB", ErrTooLarge, kib(len(data)), kib(len(l.body)), limit>>10)
		}
		// the NATS reply subject makes the broker tell that no node listens
		err = c.nc.PublishMsg(&nats.Msg{Subject: subject, Reply: l.replyTo, Data: data})
		switch {
		case err == nil:
			return nil
		case errors.Is(err, nats.ErrReconnectBufExceeded): // lost since it was asked
		case errors.Is(err, nats.ErrConnectionClosed):
			return fmt.Errorf("%w: it was closed", ErrDisconnected)
		default:
			return fmt.Errorf("sending a request: %w", err)
		}
	}
}

// kib rounds up.
func kib(bytes int) int { return (bytes + 1<<10 - 1) >> 10 }

// unsent is why a request was not sent. Its time being up is the connection's
// fault as well.
func unsent(ctx context.Context, err error) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("%w: a request waited in vain", ErrDisconnected)
	}
	return err
}

func (c *Conn) seal(ctx context.Context, x *exchange, l letter) ([]byte, error) {
	if x.identity != "" {
		return c.sealFenced(ctx, x, l)
	}
	x.sent = time.Now()
	return c.sender.seal(ctx, c.fw, l)
}

// expect makes x known by a token that only this request's node is told: every
// node may see a request's own id.
func (c *Conn) expect(x *exchange) (err error) {
	if x.token, err = c.fw.NewRequestID(); err != nil {
		return fmt.Errorf("building a request: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.exchanges[x.token] = x
	return nil
}

func (c *Conn) forget(x *exchange) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.exchanges, x.token)
}

// isNobody is the broker's word that no one subscribes to a request's subject.
func isNobody(m *nats.Msg) bool {
	return len(m.Data) == 0 && m.Header.Get("Status") == "503"
}
