package network

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1 "github.com/choria-io/go-choria/protocol/v1"
	v2 "github.com/choria-io/go-choria/protocol/v2"

	"github.com/choria-io/go-choria/protocol"
)

// ErrFenced reports that a request was not sent because the time in which this
// process may act is over.
var ErrFenced = errors.New("this process may not act any more")

// MaxInFlight is the time after a deadline in which a request that was sealed
// before it may still begin at a node. Requests expire at the deadline by the
// node's clock, so it is what that clock may be behind ours. A process that
// takes over the work of another one starts no earlier than the other one's
// deadline plus MaxInFlight, unless the other one said that it has ended.
//
// A lease needs no wait of its own: see [Lease.Fence].
const MaxInFlight = 15 * time.Second

// Fence returns the deadline of the right to act, or why there is none left. It
// is called twice for each request, from many goroutines. The zero time means
// that there is no deadline.
type Fence func() (deadline time.Time, err error)

// SetFence puts a fence around all requests to nodes from now on: each one is
// stamped so that the node drops it from the deadline on, and is not sent when
// the fence returns an error or a deadline that has passed. nil takes it away.
//
// No check in this process can hold a request back that is on its way: the
// process, its machine or its link may stand still between the check and the
// moment the bytes leave. The node can: it drops a request that is older than
// the request's own time-to-live.
//
// Broadcasts are left out. They change nothing, and a node that drops requests
// because of its clock is at least seen that way.
func (c *Conn) SetFence(f Fence) { c.fence.Store(&f) }

// EarliestFence joins fences: all must allow, the earliest deadline counts.
func EarliestFence(fences ...Fence) Fence {
	return func() (earliest time.Time, err error) {
		for _, f := range fences {
			deadline, err := f()
			if err != nil {
				return time.Time{}, err
			}
			if !deadline.IsZero() && (earliest.IsZero() || deadline.Before(earliest)) {
				earliest = deadline
			}
		}
		return earliest, nil
	}
}

// deadline asks the fence.
func (c *Conn) deadline() (time.Time, error) {
	f := c.fence.Load()
	if f == nil || *f == nil {
		return time.Time{}, nil
	}
	deadline, err := (*f)()
	switch {
	case err != nil:
		return time.Time{}, fmt.Errorf("%w: %w", ErrFenced, err)
	case hasPassed(deadline):
		return time.Time{}, fmt.Errorf("%w: its deadline has passed", ErrFenced)
	default:
		return deadline, nil
	}
}

// sealFenced stamps and seals the request of an exchange. Sealing reads keys
// from a disk or asks a remote signer: it may take its time, so the fence is
// asked again before the caller sends what is returned.
func (c *Conn) sealFenced(ctx context.Context, x *exchange, l letter) ([]byte, error) {
	for {
		deadline, err := c.deadline()
		if err != nil {
			return nil, err
		}
		now := time.Now()
		l.stamp = stampFor(now, deadline, c.sender.lifetime())
		x.sent, x.valid = l.stamp, max(deadline.Sub(now), 0)
		data, err := c.sender.seal(ctx, c.fw, l)
		if err != nil {
			return nil, err
		}
		if hasPassed(deadline) {
			continue // its node would drop it; there may be a later deadline by now
		}
		if _, err := c.deadline(); err != nil {
			return nil, err
		}
		return data, nil
	}
}

// stampFor returns the time that a request states as its own. It is valid for
// ttl from then on, and never beyond the deadline.
func stampFor(now, deadline time.Time, ttl time.Duration) time.Time {
	if stamp := deadline.Add(-ttl); !deadline.IsZero() && stamp.Before(now) {
		return stamp
	}
	return now
}

// hasPassed reports whether a deadline is over by either clock: the monotonic
// one stands still while a machine sleeps, the other one can be set back.
func hasPassed(deadline time.Time) bool {
	if deadline.IsZero() {
		return false
	}
	now := time.Now()
	return !now.Before(deadline) || !now.Round(0).Before(deadline.Round(0))
}

// setTime makes a request state this time as its own. go-choria's interface has
// no way to, its two implementations have the field.
func setTime(request protocol.Request, stamp time.Time) error {
	switch r := request.(type) {
	case *v1.Request:
		r.Envelope.Time = stamp.Unix() // cut to seconds: it expires sooner, not later
	case *v2.Request:
		r.ReqEnvelope.Time = stamp.UnixNano()
	default:
		return fmt.Errorf("a request of the type %T cannot be stamped", request)
	}
	return nil
}
