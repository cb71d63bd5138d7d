package lab

import (
	"context"
	"fmt"
	"sync"

	"github.com/choria-io/go-choria/lifecycle"
	"github.com/nats-io/nats.go"
)

// events listens to the lifecycle events of all servers, those in the
// provisioning account included, from inside the broker.
type events struct {
	nc *nats.Conn

	mu     sync.Mutex
	starts map[string]int // of a server waiting to be provisioned, by identity
	news   chan struct{}  // closed and replaced when an event came
}

func listen(b broker) (*events, error) {
	nc, err := nats.Connect("", nats.InProcessServer(b))
	if err != nil {
		return nil, fmt.Errorf("connecting from inside: %w", err)
	}
	e := &events{nc: nc, starts: map[string]int{}, news: make(chan struct{})}
	if _, err := nc.Subscribe("choria.lifecycle.event.>", e.take); err != nil {
		nc.Close()
		return nil, fmt.Errorf("subscribing to lifecycle events: %w", err)
	}
	return e, nc.Flush()
}

func (e *events) take(m *nats.Msg) {
	event, err := lifecycle.NewFromJSON(m.Data)
	if err != nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if event.Type() == lifecycle.Startup && event.Component() == "provision_mode_server" {
		e.starts[event.Identity()]++
	}
	close(e.news)
	e.news = make(chan struct{})
}

func (e *events) close() { e.nc.Close() }

// started counts the starts of an identity up to now.
func (e *events) started(identity string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.starts[identity]
}

// awaitStarts returns when an identity has started count times, or with an
// error when its process ends first.
func (e *events) awaitStarts(ctx context.Context, identity string, count int, p *process) error {
	for {
		e.mu.Lock()
		seen, news := e.starts[identity], e.news
		e.mu.Unlock()
		if seen >= count {
			return nil
		}
		select {
		case <-news:
		case <-p.done:
			return fmt.Errorf("%s ended: %s", p.name, lastLine(p.log()))
		case <-ctx.Done():
			return fmt.Errorf("%s did not start in time: %s", p.name, lastLine(p.log()))
		}
	}
}
