package network

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/choria-io/go-choria/choria"
	"github.com/choria-io/go-choria/inter"
	"github.com/choria-io/go-choria/protocol"
	rpcclient "github.com/choria-io/go-choria/providers/agent/mcorpc/client"
	"github.com/nats-io/nats.go"
)

// The ways a request can end without a reply.
var (
	ErrNobody  = errors.New("nobody listens there") // the broker says so
	ErrNoReply = errors.New("no reply in time")     // somebody may have listened
	ErrTwins   = errors.New("an earlier request was answered twice")
)

// MaxReply is the size in bytes of the largest reply that is decoded; a
// broker's default limit for messages is 1 MiB.
const MaxReply = 8 << 20

// listenOn is how long an answered request still listens: two machines of one
// name answer within this of each other, or not at all.
const listenOn = 5 * time.Second

// Reply is one decoded reply to a directed request. Sender, request and
// structure were checked, its content was not: a stranger wrote it.
type Reply struct {
	Sender string
	rpcclient.RPCReply
}

// exchange is one request and what came back.
type exchange struct {
	token     string
	identity  string // empty: a broadcast, anybody may answer
	requestID string
	raw       chan []byte // nil element: nobody listens
	answered  time.Time
}

// Request sends body to one agent on one node and returns its reply as soon as
// there is one, with any others that are there already. The context bounds the
// wait: ErrNoReply. ErrNobody means that no such node is connected. ErrTwins
// means that a second reply to an earlier request to this node came late.
func (c *Conn) Request(ctx context.Context, identity, agent string, body []byte) ([]Reply, error) {
	if c.sawTwins(identity) {
		return nil, ErrTwins
	}
	x := &exchange{identity: identity, raw: make(chan []byte, 4)}
	msg, err := c.message(x, body, agent)
	if err != nil {
		return nil, err
	}
	msg.SetDiscoveredHosts([]string{identity})
	if err := msg.SetType(inter.DirectRequestMessageType); err != nil {
		return nil, err
	}
	if err := c.publish(ctx, x, msg, choria.NodeDirectedTarget(c.collective, identity)); err != nil {
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
			return nil, odd
		}
	}
}

// settle takes the replies that came with the first, then leaves the exchange
// listening for a while.
func (c *Conn) settle(x *exchange) (more []Reply) {
	c.mu.Lock()
	defer c.mu.Unlock()
	x.answered = time.Now()
	c.answered = append(c.answered, x)
	c.sweep(x.answered)
	for {
		select {
		case raw := <-x.raw:
			if reply, err := c.decode(x, raw); raw != nil && err == nil {
				more = append(more, reply)
			}
		default:
			return more
		}
	}
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
	if m.Header.Get("Status") == "503" { // NATS: no responders
		data = nil
	} else if len(data) == 0 || len(data) > MaxReply {
		return
	}

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
	case data != nil && c.twins[x.identity].IsZero():
		if _, err := c.decode(x, data); err == nil {
			c.twins[x.identity] = time.Now()
		}
	}
}

// decode checks that a reply is go-choria's, from the node asked, and to this
// very request.
func (c *Conn) decode(x *exchange, raw []byte) (Reply, error) {
	reply, err := c.fw.NewReplyFromTransportJSON(raw, false)
	if err != nil {
		return Reply{}, fmt.Errorf("not a Choria reply: %w", err)
	}
	switch {
	case reply.RequestID() != x.requestID:
		return Reply{}, errors.New("a reply to another request")
	case x.identity != "" && reply.SenderID() != x.identity:
		return Reply{}, fmt.Errorf("a reply from %q", reply.SenderID())
	}
	if x.identity == "" {
		return Reply{Sender: reply.SenderID()}, nil
	}
	var rpc rpcclient.RPCReply
	if err := json.Unmarshal(reply.Message(), &rpc); err != nil {
		return Reply{}, fmt.Errorf("not an RPC reply: %w", err)
	}
	return Reply{Sender: reply.SenderID(), RPCReply: rpc}, nil
}

// message builds a request whose replies come to x.
func (c *Conn) message(x *exchange, body []byte, agent string) (inter.Message, error) {
	msg, err := c.fw.NewMessage(body, agent, c.collective, inter.RequestMessageType, nil)
	if err != nil {
		return nil, fmt.Errorf("building a request: %w", err)
	}
	msg.SetFilter(protocol.NewFilter())
	x.requestID = msg.RequestID()
	x.token, err = c.fw.NewRequestID() // not the request's own: every node sees that one
	if err != nil {
		return nil, fmt.Errorf("building a request: %w", err)
	}
	return msg, msg.SetReplyTo(c.inbox + "." + x.token)
}

func (c *Conn) publish(ctx context.Context, x *exchange, msg inter.Message, subject string) error {
	transport, err := msg.Transport(ctx)
	if err != nil {
		return fmt.Errorf("signing a request: %w", err)
	}
	data, err := transport.JSON()
	if err != nil {
		return fmt.Errorf("building a request: %w", err)
	}
	c.mu.Lock()
	c.exchanges[x.token] = x
	c.mu.Unlock()
	// the NATS reply subject makes the broker tell when nobody listens
	err = c.connector.PublishRawMsg(&nats.Msg{Subject: subject, Reply: msg.ReplyTo(), Data: data})
	if err != nil {
		return fmt.Errorf("sending a request: %w", err)
	}
	return nil
}

func (c *Conn) forget(x *exchange) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.exchanges, x.token)
}

// Window says when a broadcast is over: quiet after the last reply, first
// before there was any, total in all cases.
type Window struct {
	First, Quiet, Total time.Duration
}

// Broadcast asks every node that runs an agent to name itself and returns the
// senders in the order they answered; one that answers twice is there twice.
func (c *Conn) Broadcast(ctx context.Context, agent string, w Window) ([]string, error) {
	x := &exchange{raw: make(chan []byte, 100_000)}
	defer c.forget(x)
	// providers/discovery/broadcast of go-choria: the body is "ping" in base64
	body := []byte(base64.StdEncoding.EncodeToString([]byte("ping")))
	msg, err := c.message(x, body, "discovery")
	if err != nil {
		return nil, err
	}
	msg.Filter().AddAgentFilter(agent)
	if err := c.publish(ctx, x, msg, choria.AgentBroadcastTarget(c.collective, "discovery")); err != nil {
		return nil, err
	}
	return c.gather(ctx, x, w)
}

func (c *Conn) gather(ctx context.Context, x *exchange, w Window) (senders []string, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, w.Total, errTimeout)
	defer cancel()
	quiet := time.NewTimer(w.First)
	defer quiet.Stop()
	for {
		select {
		case raw := <-x.raw:
			if raw == nil { // the broker knows of no subscriber at all
				return senders, nil
			}
			if reply, err := c.decode(x, raw); err == nil {
				senders = append(senders, reply.Sender)
				quiet.Reset(w.Quiet)
			}
		case <-quiet.C:
			return senders, nil
		case <-ctx.Done():
			if context.Cause(ctx) == errTimeout {
				return senders, nil
			}
			return senders, ctx.Err()
		}
	}
}
