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
	start, err := l.StopBroker()
	if err != nil {
		return err
	}
	return start(ctx)
}

// StopBroker ends the broker and returns what starts it again, as RestartBroker
// does; it must be called before anything else is asked of the lab.
func (l *Lab) StopBroker() (start func(ctx context.Context) error, err error) {
	b, ok := l.broker.(*choriaBroker)
	if !ok {
		return nil, errors.New("restarting the broker: only go-choria's own can be")
	}
	l.events.close()
	b.end()
	return func(ctx context.Context) error {
		if err := b.launch(ctx); err != nil {
			return fmt.Errorf("restarting the broker: %w", err)
		}
		events, err := listen(b)
		if err != nil {
			return fmt.Errorf("restarting the broker: %w", err)
		}
		l.events = events
		return nil
	}, nil
}
