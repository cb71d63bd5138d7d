package network

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/choria-io/go-choria/backoff"
)

// releasedSubject is where a leader that ends politely says which revision of
// the election key it gives up. Nodes in provisioning may not publish there
// (broker/network of go-choria), and a revision that is not the key's own does
// no harm.
const releasedSubject = "provisioning.provisioner.released"

type released struct {
	Revision uint64 `json:"revision"`
}

// setupTries bounds how often an election that cannot be held is tried before
// the campaign fails.
const setupTries = 5

// maxStandby is the longest time between two attempts to lead, as go-choria's
// provisioner has it.
const maxStandby = 20 * time.Second

// Terms are told how a campaign goes, one at a time.
type Terms struct {
	Won  func(*Lease)
	Lost func(error)
}

// Campaign stands for the leadership until ctx ends, over and over. An election
// that cannot be held from the start is ErrElection after a few attempts; once
// it was held, a broker that is away is waited for.
func (c *Conn) Campaign(ctx context.Context, o LeaseOptions, t Terms) error {
	wake := make(chan uint64, 1)
	end, err := c.Subscribe(releasedSubject, func(data []byte) {
		var r released
		if json.Unmarshal(data, &r) == nil && r.Revision != 0 {
			select {
			case wake <- r.Revision:
			default:
			}
		}
	})
	if err != nil {
		return err
	}
	defer end()

	held := false
	for try := 1; ctx.Err() == nil; try++ {
		lease, lost, err := c.leadFor(o)
		switch {
		case err == nil:
			held, try = true, 0
			o.Revision = c.serve(ctx, lease, lost, t)
		case errors.Is(err, ErrStandby):
			held = true
		case !held && try >= setupTries:
			return err
		}
		o.Revision = standBy(ctx, wake, try, o)
	}
	return nil
}

func (c *Conn) leadFor(o LeaseOptions) (*Lease, chan error, error) {
	lost := make(chan error, 1)
	o.Lost = func(err error) { lost <- err }
	lease, err := c.Lead(o)
	return lease, lost, err
}

// serve is one term of leadership, to its loss or to the end of ctx. It returns
// the revision that was held last.
func (c *Conn) serve(ctx context.Context, lease *Lease, lost chan error, t Terms) uint64 {
	t.Won(lease)
	select {
	case err := <-lost:
		t.Lost(err)
	case <-ctx.Done():
	}
	lease.Release()
	return lease.current()
}

// standBy waits for the next attempt and returns the revision to try it with.
func standBy(ctx context.Context, wake chan uint64, try int, o LeaseOptions) uint64 {
	wait := min(backoff.TwentySec.Duration(try), maxStandby)
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case revision := <-wake:
		return revision // several may have heard it: the key itself decides
	case <-timer.C:
		return o.Revision
	case <-ctx.Done():
		return o.Revision
	}
}
