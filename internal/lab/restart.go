package lab

import (
	"context"
	"errors"
	"fmt"
)

// RestartBroker ends the broker and starts it again on the same ports; its
// streams are kept. It returns when the broker takes connections again: servers
// and provisioners come back by themselves. The network without credentials has
// no broker that could be restarted.
func (l *Lab) RestartBroker(ctx context.Context) error {
	b, ok := l.broker.(*choriaBroker)
	if !ok {
		return errors.New("restarting the broker: only go-choria's own can be")
	}
	l.events.close()
	b.end()
	if err := b.launch(ctx); err != nil {
		return fmt.Errorf("restarting the broker: %w", err)
	}
	events, err := listen(b)
	if err != nil {
		return fmt.Errorf("restarting the broker: %w", err)
	}
	l.events = events
	return nil
}
