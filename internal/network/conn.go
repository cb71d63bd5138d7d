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
	"github.com/choria-io/go-choria/inter"
	"github.com/nats-io/nats.go"
	"github.com/sirupsen/logrus"
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
	fw        *choria.Framework
	connector inter.Connector
	sender    sender
	inbox     string
	sub       *nats.Subscription
	fence     atomic.Pointer[Fence]
	clocks    fastClocks

	mu        sync.Mutex
	exchanges map[string]*exchange // by the last token of their reply subject
	answered  []*exchange          // oldest first: still listened to for a second reply
	twins     map[string]time.Time
}

// Dial connects within timeout and says in its error what stood in the way:
// the last real cause go-choria met, not that time ran out.
func Dial(ctx context.Context, cfg *choriaconfig.Config, name string, timeout time.Duration) (*Conn, error) {
	fw, err := choria.NewWithConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSecurity, err)
	}
	servers, err := fw.MiddlewareServers()
	if err != nil {
		return nil, fmt.Errorf("%w: finding the broker: %w", ErrSecurity, err)
	}

	me := sender{cfg.Identity, fw.CallerID(), cfg.MainCollective, cfg.TTL, fw.RequestProtocol()}
	if err := me.check(fw); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSecurity, err)
	}

	connector, err := connect(ctx, fw, name, timeout)
	if err != nil {
		return nil, fmt.Errorf("connecting to the broker at %s: %w", strings.Join(servers.Strings(), ", "), err)
	}

	c := &Conn{
		fw:        fw,
		connector: connector,
		sender:    me,
		inbox:     choria.Inbox(me.collective, me.caller),
		exchanges: map[string]*exchange{},
		twins:     map[string]time.Time{},
	}
	if err := c.listen(); err != nil {
		connector.Close()
		return nil, err
	}
	return c, nil
}

func (c *Conn) listen() (err error) {
	c.sub, err = c.connector.Nats().Subscribe(c.inbox+".*", c.receive)
	if err != nil {
		return fmt.Errorf("subscribing to replies: %w", err)
	}
	if err := c.sub.SetPendingLimits(-1, pendingBytes); err != nil {
		return fmt.Errorf("subscribing to replies: %w", err)
	}
	if err := c.connector.Nats().Flush(); err != nil {
		return fmt.Errorf("subscribing to replies: %w", err)
	}
	return nil
}

// Framework is go-choria's view of this connection's configuration.
func (c *Conn) Framework() *choria.Framework { return c.fw }

// Connector hands the connection to parts of go-choria that want their own.
func (c *Conn) Connector() inter.Connector { return c.connector }

// Server is the address of the broker in use, without credentials.
func (c *Conn) Server() string { return c.connector.ConnectedServer() }

// Close ends the connection; requests under way end with ErrClosed.
func (c *Conn) Close() {
	if !c.connector.IsConnected() {
		c.connector.Nats().Close() // go-choria would wait for the broker, to flush
		return
	}
	c.connector.Close()
}

// connect tries until the timeout. What go-choria meets while it tries it only
// logs, so a hook on a logger of its own listens to it.
func connect(stop context.Context, fw *choria.Framework, name string, timeout time.Duration) (inter.Connector, error) {
	ctx, cancel := context.WithTimeoutCause(stop, timeout, errTimeout)
	defer cancel()

	heard := &listener{giveUp: cancel}
	type made struct {
		connector inter.Connector
		err       error
	}
	done := make(chan made)
	go func() {
		connector, err := fw.NewConnector(ctx, fw.MiddlewareServers, name, heard.logger(fw.Logger("network")))
		select {
		case done <- made{connector, err}:
		case <-ctx.Done(): // nobody waits any more: an attempt cannot be interrupted
			if err == nil {
				connector.Close()
			}
		}
	}()

	select {
	case m := <-done:
		if m.err == nil {
			return m.connector, nil
		}
		return nil, heard.cause(m.err)
	case <-ctx.Done():
		if stop.Err() != nil {
			return nil, context.Cause(stop)
		}
		return nil, heard.cause(context.Cause(ctx))
	}
}

var errTimeout = errors.New("timed out")

// listener keeps the last reason go-choria logged for a failed attempt.
type listener struct {
	giveUp context.CancelFunc

	mu      sync.Mutex
	last    string
	refused int
}

func (l *listener) logger(entry *logrus.Entry) *logrus.Entry {
	own := logrus.New()
	own.SetOutput(entry.Logger.Out)
	own.SetFormatter(terse{entry.Logger.Formatter})
	own.SetLevel(entry.Logger.GetLevel())
	for _, level := range logrus.AllLevels {
		own.Hooks[level] = append(own.Hooks[level], entry.Logger.Hooks[level]...)
	}
	own.AddHook(l)
	return own.WithFields(entry.Data)
}

// terse leaves out what go-choria says at every connection to who turned TLS
// off on purpose (choria/connection.go).
type terse struct{ logrus.Formatter }

// Format implements logrus.Formatter.
func (t terse) Format(entry *logrus.Entry) ([]byte, error) {
	if entry.Message == "Disabling TLS due to configuration override" {
		return nil, nil
	}
	return t.Formatter.Format(entry)
}

// Levels implements logrus.Hook.
func (l *listener) Levels() []logrus.Level { return []logrus.Level{logrus.WarnLevel} }

// Fire implements logrus.Hook: it reads what choria/connection.go of go-choria
// logs for every failed attempt. A cause that time does not mend ends the
// attempts when it is met twice.
func (l *listener) Fire(entry *logrus.Entry) error {
	_, cause, found := strings.Cut(entry.Message, "Initial connection to the Broker failed on try ")
	if !found {
		return nil
	}
	_, cause, _ = strings.Cut(cause, ": ")

	l.mu.Lock()
	defer l.mu.Unlock()
	l.last = cause
	if kind := classify(cause); kind == ErrUnauthorized || kind == ErrTLS {
		l.refused++
	}
	if l.refused >= 2 {
		l.giveUp()
	}
	return nil
}

func (l *listener) cause(err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.last != "":
		return fmt.Errorf("%w: %s", classify(l.last), l.last)
	case errors.Is(err, errTimeout):
		return ErrSilent
	default:
		return err
	}
}

// classify reads the texts of nats.go and crypto/tls, which reach us as log
// lines only.
func classify(cause string) error {
	lower := strings.ToLower(cause)
	switch {
	case strings.Contains(lower, "authorization"), strings.Contains(lower, "authentication"):
		return ErrUnauthorized
	case strings.Contains(lower, "x509"), strings.Contains(lower, "tls:"), strings.Contains(lower, "secure connection"):
		return ErrTLS
	case strings.Contains(lower, "timeout"):
		return ErrSilent
	default:
		return ErrUnreachable
	}
}
