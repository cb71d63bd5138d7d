package network

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// Where Choria holds its elections: a key-value bucket whose entries expire
// unless their leader renews them, one key for each election.
const (
	electionBucket = "CHORIA_LEADER_ELECTION"
	electionName   = "provisioner"
)

// The ways an election can go against us.
var (
	ErrStandby  = errors.New("another instance leads")
	ErrElection = errors.New("the leader election cannot be held")
	ErrLost     = errors.New("the leadership was lost")
)

// Lease is the leadership of a site for the length of a run. It is held on the
// same key that go-choria's elections use, by the same rules: who creates the
// key leads, who renews it within the bucket's TTL stays, and nobody takes a
// key that another one renews.
type Lease struct {
	conn   *Conn
	bucket nats.KeyValue
	name   string
	ttl    time.Duration
	keep   func(revision uint64) // remembers the revision for a later run here
	tell   func(error)           // that the lease is lost

	cancel context.CancelFunc
	done   chan struct{}

	mu       sync.Mutex
	revision uint64
	renewed  time.Time // when the last write that succeeded began
	lost     error
}

// LeaseOptions say who asks and what this host knows of its own last lease.
type LeaseOptions struct {
	Name     string                // shown as the leader; one per host
	Revision uint64                // of the last lease held here, 0 for none
	Keep     func(revision uint64) // called with each new revision; may be nil
	Lost     func(error)           // called once when the lease is lost; may be nil
}

// Lead takes the leadership or gives ErrStandby at once. A lease that a run on
// this host held last, and nobody since, is taken over without waiting for it
// to expire. ErrElection says that there is no election to take part in.
func (c *Conn) Lead(o LeaseOptions) (*Lease, error) {
	stream, err := c.connector.Nats().JetStream(nats.APIPrefix("choria.streams"))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrElection, err)
	}
	bucket, err := stream.KeyValue(electionBucket)
	if err != nil {
		return nil, fmt.Errorf("%w: the bucket %s of Choria Streams cannot be reached: %w; enable Choria Streams on the broker or set leader_election to false", ErrElection, electionBucket, err)
	}
	status, err := bucket.Status()
	if err != nil {
		return nil, fmt.Errorf("%w: the state of the bucket %s: %w", ErrElection, electionBucket, err)
	}
	if status.TTL() <= 0 {
		return nil, fmt.Errorf("%w: the bucket %s has no TTL: a leader that dies would lead for ever", ErrElection, electionBucket)
	}

	l := &Lease{conn: c, bucket: bucket, name: o.Name, ttl: status.TTL(), keep: o.Keep, tell: o.Lost, done: make(chan struct{})}
	if err := l.take(o.Revision); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	l.cancel = cancel
	go l.renew(ctx)
	return l, nil
}

func (l *Lease) take(own uint64) error {
	err := l.update(0)
	if err != nil && isTaken(err) && own != 0 {
		err = l.update(own)
	}
	switch {
	case err == nil:
		return nil
	case isTaken(err):
		return ErrStandby
	default:
		return fmt.Errorf("%w: %w", ErrElection, err)
	}
}

// update writes the key if its revision is still the one given; 0 is a key
// that does not exist.
func (l *Lease) update(revision uint64) error {
	began := time.Now()
	next, err := l.bucket.Update(electionName, []byte(l.name), revision)
	if err != nil {
		return err
	}
	l.mu.Lock()
	l.revision, l.renewed = next, began
	l.mu.Unlock()
	if l.keep != nil {
		l.keep(next)
	}
	return nil
}

func isTaken(err error) bool {
	var api *nats.APIError
	return errors.As(err, &api) && api.ErrorCode == nats.JSErrCodeStreamWrongLastSequence
}

// renew keeps the lease three times as often as needed. When it could not be
// renewed in time nobody knows who leads: it counts as lost before another one
// can have it.
func (l *Lease) renew(ctx context.Context) {
	defer close(l.done)
	ticker := time.NewTicker(l.ttl / 4)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			err := l.update(l.current())
			switch {
			case err == nil:
			case isTaken(err), l.age() > l.ttl/2:
				l.lose(fmt.Errorf("%w: %w", ErrLost, err))
				return
			}
		}
	}
}

func (l *Lease) lose(err error) {
	l.mu.Lock()
	l.lost = err
	l.mu.Unlock()
	if l.tell != nil {
		l.tell(err)
	}
}

func (l *Lease) current() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.revision
}

// age is how long ago the key was written.
func (l *Lease) age() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Since(l.renewed)
}

// Err is nil while we lead and ErrLost from the moment we may not any more. A
// process that stood still for a while, or its whole machine, goes on before
// its next renewal finds out that another one leads: so the age counts too.
func (l *Lease) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if age := time.Since(l.renewed); l.lost == nil && age > l.ttl*3/4 {
		return fmt.Errorf("%w: it was not renewed for %s", ErrLost, age.Round(time.Second))
	}
	return l.lost
}

// Release gives the leadership up: it ends the renewals and tells who stands by
// which revision of the key may be taken over. The key itself is left to
// expire: a marker of its deletion would keep others waiting for longer, since
// who stands by in the provisioning account can write this key but not read it.
func (l *Lease) Release() {
	l.cancel()
	<-l.done
	if l.Err() != nil {
		return
	}
	if data, err := json.Marshal(released{l.current()}); err == nil {
		_ = l.conn.Publish(releasedSubject, data) // unheard, the key expires
	}
}
