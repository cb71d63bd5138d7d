// Package network knows the product's one broker connection: how it is made
// within bounds, how a request is built and signed by go-choria's security
// layer, and how replies find the request they belong to. It does not know
// what the requests mean.
package network

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/choria-io/go-choria/choria"
	choriaconfig "github.com/choria-io/go-choria/config"
	"github.com/nats-io/nats.go"
)

// The causes of a connection that could not be made.
var (
	ErrUnreachable  = errors.New("no broker answers")
	ErrSilent       = errors.New("the broker accepts connections and says nothing")
	ErrUnauthorized = errors.New("the broker refuses our credentials")
	ErrTLS          = errors.New("the TLS handshake with the broker failed")
	ErrSecurity     = errors.New("the Choria client configuration cannot be used")
)

// pendingBytes bounds what unread replies may hold in memory: 50,000 discovery
// replies of 2 KiB fit twice over.
const pendingBytes = 256 << 20

// Conn is one connection that carries every request and reply of a process.
// Its methods may be called from many goroutines.
type Conn struct {
	fw       *choria.Framework
	nc       *nats.Conn
	dialer   *dialer
	outages  *outages
	denials  *denials
	patience time.Duration // with a broker that is away
	sender   sender
	host     string
	inbox    string
	sub      *nats.Subscription
	fence    atomic.Pointer[Fence]
	clocks   fastClocks
	shared   atomic.Pointer[func()] // called when another host uses this identity

	mu        sync.Mutex
	exchanges map[string]*exchange // by the last token of their reply subject
	answered  []*exchange          // oldest first: still listened to for a second reply
	twins     map[string]time.Time
}

// Dial connects within timeout and says in its error what stood in the way: the
// last real cause that was met, not that time ran out. Later on, requests wait as
// long for a broker that is away.
func Dial(ctx context.Context, cfg *choriaconfig.Config, name string, timeout time.Duration) (*Conn, error) {
	fw, err := choria.NewWithConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSecurity, err)
	}
	servers, origin, err := brokers(fw)
	if err != nil {
		return nil, fmt.Errorf("%w: finding the broker: %w", ErrSecurity, err)
	}

	me := sender{cfg.Identity, fw.CallerID(), cfg.MainCollective, cfg.TTL, fw.RequestProtocol()}
	if err := me.check(fw); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSecurity, err)
	}

	c := &Conn{
		fw:        fw,
		dialer:    &dialer{timeout: cfg.Choria.NetworkConnectTimeout},
		outages:   &outages{hooks: logging(fw.Logger("network"))},
		denials:   &denials{log: fw.Logger("network")},
		patience:  timeout,
		sender:    me,
		host:      hostName(),
		exchanges: map[string]*exchange{},
		twins:     map[string]time.Time{},
	}
	c.inbox = inboxOf(me, c.host)
	all, err := options(fw, name, c.dialer, fw.Logger("network"))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSecurity, err)
	}
	c.nc, err = connect(ctx, fw, c.dialer, timeout, append(all, c.handlers()...))
	if err != nil {
		if origin != "" {
			origin = " (" + origin + ")"
		}
		return nil, fmt.Errorf("connecting to the broker at %s%s: %w", strings.Join(servers.Strings(), ", "), origin, err)
	}
	if err := c.listen(); err != nil {
		c.nc.Close()
		return nil, err
	}
	return c, nil
}

func (c *Conn) listen() (err error) {
	c.sub, err = c.nc.Subscribe(c.inbox+".*", c.receive)
	if err != nil {
		return fmt.Errorf("subscribing to replies: %w", err)
	}
	if err := c.sub.SetPendingLimits(-1, pendingBytes); err != nil {
		return fmt.Errorf("subscribing to replies: %w", err)
	}
	if err := c.nc.Flush(); err != nil {
		return fmt.Errorf("subscribing to replies: %w", err)
	}
	return nil
}

// Framework is go-choria's view of this connection's configuration.
func (c *Conn) Framework() *choria.Framework { return c.fw }

// Server is the address of the broker in use, without credentials.
func (c *Conn) Server() string { return c.nc.ConnectedUrlRedacted() }

// Close ends the connection; requests under way end with ErrClosed.
func (c *Conn) Close() {
	if c.nc.IsConnected() {
		_ = c.nc.Flush() // what is not sent by then is lost with the connection
	}
	c.nc.Close()
}
