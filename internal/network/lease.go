package network

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Where Choria holds its elections: a key-value bucket whose entries expire
// unless their leader renews them, one key for each election.
const (
	electionBucket = "CHORIA_LEADER_ELECTION"
	electionName   = "provisioner"
)

const (
	// setupTimeout bounds joining an election: longer than a broker takes to
	// choose the server that leads the bucket, short enough to be waited for.
	setupTimeout = 10 * time.Second

	// rewritePause is the time between two attempts to store the key.
	rewritePause = 20 * time.Millisecond
)

var (
	errDropped    = errors.New("it was dropped, with what it had not sent")
	errUnanswered = errors.New("the broker does not answer")
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
	bucket jetstream.KeyValue
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
	ctx, cancel := context.WithTimeout(context.Background(), setupTimeout)
	defer cancel()
	bucket, ttl, err := c.electionBucket(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrElection, err)
	}
	l := &Lease{conn: c, bucket: bucket, name: o.Name, ttl: ttl, keep: o.Keep, tell: o.Lost, done: make(chan struct{})}
	if err := l.take(ctx, o.Revision); err != nil {
		return nil, err
	}
	renewals, stop := context.WithCancel(context.Background())
	l.cancel = stop
	go l.renew(renewals)
	return l, nil
}

func (c *Conn) electionBucket(ctx context.Context) (jetstream.KeyValue, time.Duration, error) {
	stream, err := jetstream.NewWithAPIPrefix(c.nc, "choria.streams")
	if err != nil {
		return nil, 0, err
	}
	bucket, err := stream.KeyValue(ctx, electionBucket)
	if err != nil {
		return nil, 0, fmt.Errorf("the bucket %s of Choria Streams cannot be reached: %w; enable Choria Streams on the broker or set leader_election to false", electionBucket, err)
	}
	status, err := bucket.Status(ctx)
	if err != nil {
		return nil, 0, fmt.Errorf("the state of the bucket %s: %w", electionBucket, err)
	}
	if status.TTL() <= 0 {
		return nil, 0, fmt.Errorf("the bucket %s has no TTL: a leader that dies would lead for ever", electionBucket)
	}
	return bucket, status.TTL(), nil
}

func (l *Lease) take(ctx context.Context, own uint64) error {
	err := l.update(ctx, 0)
	if isTaken(err) && own != 0 {
		err = l.update(ctx, own)
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
// that does not exist. A write that was not answered may have been stored, or
// may be stored yet: it is repeated with the same revision until it is done or
// refused, or until ctx ends. A late copy can then only be refused.
func (l *Lease) update(ctx context.Context, revision uint64) error {
	var unanswered time.Time // when the first write without an answer began
	for {
		began := time.Now()
		next, err := l.write(ctx, revision)
		switch {
		case err == nil:
			l.hold(next, began)
			return nil
		case isTaken(err):
			if next := l.ours(err); !unanswered.IsZero() && next > revision {
				l.hold(next, unanswered)
				return nil
			}
			return err
		case isUnanswered(err):
			if unanswered.IsZero() {
				unanswered = began
			}
		case isUnderWay(err), revision != 0: // a renewal has nothing to lose by another try
		default:
			return err
		}
		select {
		case <-time.After(rewritePause):
		case <-ctx.Done():
			if isUnanswered(err) {
				return errUnanswered
			}
			return err
		}
	}
}

// write makes one attempt to store the key, no longer than a renewal may take:
// another one must be possible within the lease's time.
func (l *Lease) write(ctx context.Context, revision uint64) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, l.ttl/8)
	defer cancel()
	return l.bucket.Update(ctx, electionName, []byte(l.name), revision)
}

// hold takes note of a write that succeeded and of when it began.
func (l *Lease) hold(revision uint64, began time.Time) {
	l.mu.Lock()
	l.revision, l.renewed = revision, began
	l.mu.Unlock()
	if l.keep != nil {
		l.keep(revision)
	}
}

// ours returns the revision that refused a write if it can only be that of an
// earlier copy of the write itself, else 0. The provisioning account may not
// read the key; but while the last renewal has not expired no other instance
// writes it: they create it or renew their own. A lease that was never held
// says nothing of the kind.
func (l *Lease) ours(refusal error) (revision uint64) {
	if l.current() == 0 || l.age() > l.ttl {
		return 0
	}
	var api *jetstream.APIError
	if errors.As(refusal, &api) {
		_, _ = fmt.Sscanf(api.Description, "wrong last sequence: %d", &revision) // without a number: 0
	}
	return revision
}

// Both codes refuse a write whose revision is not the key's. Replicated streams
// give the second while another write of the key is under way, which may still
// come to nothing (nats-server, JSStreamWrongLastSequenceConstantErr).
const (
	codeTaken    jetstream.ErrorCode = jetstream.JSErrCodeStreamWrongLastSequence
	codeUnderWay jetstream.ErrorCode = 10164
)

func isTaken(err error) bool    { return hasCode(err, codeTaken) }
func isUnderWay(err error) bool { return hasCode(err, codeUnderWay) }

func hasCode(err error, code jetstream.ErrorCode) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && api.ErrorCode == code
}

// isUnanswered reports whether a write may have been stored although it failed.
func isUnanswered(err error) bool {
	return errors.Is(err, context.DeadlineExceeded)
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
		}
		bounded, cancel := context.WithTimeout(ctx, l.term()-l.age())
		err := l.update(bounded, l.current())
		cancel()
		if err != nil && ctx.Err() == nil {
			l.lose(fmt.Errorf("%w: %w", ErrLost, err))
			return
		}
	}
}

// lose ends the leadership. The connection is dropped: what it has not sent was
// the leader's.
func (l *Lease) lose(err error) {
	l.mu.Lock()
	l.lost = err
	l.mu.Unlock()
	l.conn.Drop(errDropped)
	if l.tell != nil {
		l.tell(err)
	}
}

func (l *Lease) current() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.revision
}

// term is the time from the beginning of a renewal in which the lease counts.
func (l *Lease) term() time.Duration { return l.ttl * 3 / 4 }

// age is the time since the key was written.
func (l *Lease) age() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return elapsed(l.renewed)
}

// elapsed returns the longer of the times that the two clocks show, see
// hasPassed.
func elapsed(since time.Time) time.Duration {
	now := time.Now()
	return max(now.Sub(since), now.Round(0).Sub(since.Round(0)))
}

// Err is nil while we lead and ErrLost from the moment we may not any more. A
// process that stood still for a while, or its whole machine, goes on before
// its next renewal finds out that another one leads: so the age counts too.
func (l *Lease) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.errLocked()
}

func (l *Lease) errLocked() error {
	if age := elapsed(l.renewed); l.lost == nil && age >= l.term() {
		return fmt.Errorf("%w: it was not renewed for %s", ErrLost, age.Round(time.Second))
	}
	return l.lost
}

// Fence is the fence of a leader, for [Conn.SetFence]: the deadline D is when
// Err turns, three quarters of the key's TTL after the last renewal that
// succeeded began.
//
// A successor waits for nothing but the key. The broker counts the key's age
// from when it stored the renewal, which is after the renewal began: the key
// stands until D and a quarter of its TTL more, and nobody else can write it
// before (except by the revision that Release gives away, after which nothing
// is sent). No node begins a request of ours from D on, by its own clock. So a
// request and a successor meet only at a node whose clock is behind ours by
// more than a quarter of the TTL: 15 s with Choria's default of a minute.
func (l *Lease) Fence() (deadline time.Time, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.renewed.Add(l.term()), l.errLocked()
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
