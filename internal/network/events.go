package network

import (
	"errors"
	"fmt"
	"sync"

	"github.com/nats-io/nats.go"
)

// Publish sends data to a subject, without waiting for anybody.
func (c *Conn) Publish(subject string, data []byte) error {
	return c.connector.PublishRaw(subject, data)
}

// Subscribe calls take with each message on a subject, one at a time, until
// the returned function is called. It is there again after a reconnect.
func (c *Conn) Subscribe(subject string, take func(data []byte)) (func(), error) {
	sub, err := c.connector.Nats().Subscribe(subject, func(m *nats.Msg) { take(m.Data) })
	if err != nil {
		return nil, fmt.Errorf("subscribing to %s: %w", subject, err)
	}
	if err := c.connector.Nats().Flush(); err != nil {
		return nil, fmt.Errorf("subscribing to %s: %w", subject, err)
	}
	return func() { _ = sub.Unsubscribe() }, nil // a closed connection has none
}

// Hooks are told how the connection fares. They are called one at a time.
type Hooks struct {
	Lost     func(error) // once for each time it breaks
	Regained func()
	Refused  func(error) // the broker refused our credentials twice: no repeat will help
}

// Follow tells the hooks from now on, in place of go-choria's own log lines.
// The connection is made again without end, unless who is told closes it.
func (c *Conn) Follow(h Hooks) {
	nc := c.connector.Nats()
	var mu sync.Mutex
	refusals := 0
	nc.SetDisconnectErrHandler(func(_ *nats.Conn, err error) {
		mu.Lock()
		defer mu.Unlock()
		if err == nil {
			err = errors.New("closed by the broker")
		}
		h.Lost(err)
	})
	nc.SetReconnectHandler(func(*nats.Conn) {
		mu.Lock()
		defer mu.Unlock()
		refusals = 0
		h.Regained()
	})
	nc.SetErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
		mu.Lock()
		defer mu.Unlock()
		if !errors.Is(err, nats.ErrAuthorization) && !errors.Is(err, nats.ErrAuthExpired) {
			return
		}
		if refusals++; refusals == 2 {
			h.Refused(fmt.Errorf("%w: %w", ErrUnauthorized, err))
		}
	})
}
