package provision

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// outage is how long a broker is away that may have gone down together with the
// node: no server is back from a restart sooner.
const outage = time.Second

// owed reports whether the node has its configuration, as far as is known: only
// its restart is missing, and a broker that is away is waited for longer.
func (n *node) owed() bool { return n.finishing || n.configuring && n.replyLost }

// awaitBroker waits for a broker that is away, and for the end of the run.
func (n *node) awaitBroker(ctx context.Context) error {
	if n.connected == nil {
		return nil
	}
	bounded, cancel := context.WithCancel(ctx)
	defer cancel()
	if !n.finishing {
		defer context.AfterFunc(n.stop, cancel)()
	}
	began := time.Now()
	err := n.connected(bounded, n.owed())
	n.away = n.away || time.Since(began) >= outage
	if bounded.Err() != nil && err != nil {
		return n.ended(ctx)
	}
	return err
}

// awaitBroker holds a new node back while the broker is away. One that stays
// away ends the run.
func (r *Runner) awaitBroker(ctx context.Context) bool {
	if r.Connected == nil {
		return true
	}
	err := r.Connected(ctx, false)
	if errors.Is(err, ErrNetwork) {
		r.broken.CompareAndSwap(nil, &err)
	}
	return err == nil
}

// mayInTerm returns May for a node that begins now. One that waited for a reply
// while another instance led would else go on when we lead again, with what it
// knew before.
func (r *Runner) mayInTerm() func() error {
	if r.Term == nil {
		return r.May
	}
	began := r.Term()
	return func() error {
		if err := r.May(); err != nil {
			return err
		}
		if r.Term() != began {
			return fmt.Errorf("%w meanwhile", ErrNotLeader)
		}
		return nil
	}
}
