package network

import (
	"fmt"

	"github.com/nats-io/nats.go"
)

// Publish sends data to a subject, without waiting for anybody.
func (c *Conn) Publish(subject string, data []byte) error {
	return c.nc.Publish(subject, data)
}

// Subscribe calls take with each message on a subject, one at a time, until
// the returned function is called. It is there again after a reconnect.
func (c *Conn) Subscribe(subject string, take func(data []byte)) (func(), error) {
	sub, err := c.nc.Subscribe(subject, func(m *nats.Msg) { take(m.Data) })
	if err != nil {
		return nil, fmt.Errorf("subscribing to %s: %w", subject, err)
	}
	if err := c.nc.Flush(); err != nil {
		return nil, fmt.Errorf("subscribing to %s: %w", subject, err)
	}
	return func() { _ = sub.Unsubscribe() }, nil // a closed connection has none
}
