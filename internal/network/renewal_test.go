package network

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// slowBucket is the election's bucket with a script for each write, so that a
// test's own clock decides what is in time.
type slowBucket struct {
	jetstream.KeyValue
	writes []func(context.Context) (uint64, error) // the last one is repeated
	began  []time.Time
}

func (b *slowBucket) Update(ctx context.Context, _ string, _ []byte, _ uint64) (uint64, error) {
	number := min(len(b.began), len(b.writes)-1)
	b.began = append(b.began, time.Now())
	return b.writes[number](ctx)
}

// unanswered is a write that the broker says nothing of.
func unanswered(ctx context.Context) (uint64, error) {
	<-ctx.Done()
	return 0, ctx.Err()
}

// storedAfter is a write that takes a while to be answered.
func storedAfter(d time.Duration, revision uint64) func(context.Context) (uint64, error) {
	return func(ctx context.Context) (uint64, error) {
		select {
		case <-time.After(d):
			return revision, nil
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

// failing is a write that the broker answers at once with this code.
func failing(code jetstream.ErrorCode, description string) func(context.Context) (uint64, error) {
	return func(context.Context) (uint64, error) {
		return 0, &jetstream.APIError{Code: 400, ErrorCode: code, Description: description}
	}
}

// leaseOn is a lease that was taken just now, with a TTL of 40 s: it is renewed
// every 10 s, and lost 30 s after its last renewal began.
func leaseOn(b *slowBucket) *Lease {
	conn := &Conn{outages: &outages{}, dialer: &dialer{}}
	return &Lease{conn: conn, bucket: b, name: "a", ttl: 40 * time.Second, done: make(chan struct{}), revision: 1, renewed: time.Now()}
}

// Another host may have the key once its TTL is over, so the lease must be lost
// well before: exactly three quarters of the TTL after its last renewal.
func TestALeaseWhoseRenewalsFailIsLostBeforeItsTTL(t *testing.T) {
	t.Parallel()
	busy := failing(10008, "JetStream system temporarily unavailable")
	tests := []struct {
		name   string
		writes []func(context.Context) (uint64, error)
		want   time.Duration // from the beginning to the loss
	}{
		{"no answer", []func(context.Context) (uint64, error){unanswered}, 30 * time.Second},
		{"no JetStream", []func(context.Context) (uint64, error){busy}, 30 * time.Second},
		{"renewed once, at 10 s", []func(context.Context) (uint64, error){storedAfter(0, 2), unanswered}, 40 * time.Second},
		{"renewed once, slowly: counted from its beginning", []func(context.Context) (uint64, error){storedAfter(4*time.Second, 2), unanswered}, 40 * time.Second},
		{"taken by another", []func(context.Context) (uint64, error){failing(codeTaken, "wrong last sequence: 9")}, 10 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				lost := make(chan time.Duration, 1)
				l := leaseOn(&slowBucket{writes: tt.writes})
				l.tell = func(err error) {
					if !errors.Is(err, ErrLost) || !errors.Is(l.Err(), ErrLost) {
						t.Errorf("got %v, and %v by the lease itself, want %v", err, l.Err(), ErrLost)
					}
					lost <- time.Since(began)
				}
				go l.renew(t.Context())
				if got := <-lost; got != tt.want {
					t.Errorf("lost after %s, want %s", got, tt.want)
				}
				<-l.done
			})
		})
	}
}

// The broker counts from when it stored a write, which may be as soon as the
// write began. A lease that counted from the answer would outlast its key.
func TestALeaseCountsFromTheBeginningOfItsWrite(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		writes []func(context.Context) (uint64, error)
		want   int // the write whose beginning counts
	}{
		{"answered late", []func(context.Context) (uint64, error){storedAfter(4*time.Second, 2)}, 0},
		{"refused, then stored", []func(context.Context) (uint64, error){failing(codeUnderWay, ""), storedAfter(time.Second, 2)}, 1},
		{"unanswered, then stored", []func(context.Context) (uint64, error){unanswered, storedAfter(time.Second, 2)}, 1},
		{"stored without an answer", []func(context.Context) (uint64, error){unanswered, failing(codeTaken, "wrong last sequence: 2")}, 0},
		{"stored without an answer at one of two tries", []func(context.Context) (uint64, error){unanswered, unanswered, failing(codeTaken, "wrong last sequence: 2")}, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				bucket := &slowBucket{writes: tt.writes}
				l := leaseOn(bucket)
				time.Sleep(10 * time.Second)
				if err := l.update(t.Context(), 1); err != nil || l.current() != 2 {
					t.Fatalf("got revision %d and %v, want 2", l.current(), err)
				}
				want := bucket.began[tt.want]
				if !l.renewed.Equal(want) {
					t.Errorf("renewed at %s, want %s", l.renewed, want)
				}
				if deadline, err := l.Fence(); err != nil || !deadline.Equal(want.Add(30*time.Second)) {
					t.Errorf("got the deadline %s, %v, want 30s after %s", deadline, err, want)
				}
			})
		})
	}
}

// A renewal must leave time for another one within the lease.
func TestARenewalIsGivenAnEighthOfTheTTL(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		bucket := &slowBucket{writes: []func(context.Context) (uint64, error){unanswered, storedAfter(0, 2)}}
		l := leaseOn(bucket)
		if err := l.update(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		if got, want := bucket.began[1].Sub(bucket.began[0]), 5*time.Second+rewritePause; got != want {
			t.Errorf("the second write began %s after the first, want %s", got, want)
		}
	})
}
