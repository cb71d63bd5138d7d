package network

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/choria-io/go-choria/choria"
	"github.com/nats-io/nats.go/jetstream"
)

// accessTimeout bounds the answer to one ping.
const accessTimeout = 5 * time.Second

// nobody is the name of no node: what is published to it reaches none.
const nobody = "_check"

// CheckAccess returns the broker's account of this connection, empty when the
// broker does not tell, and what keeps a provisioner from working in it:
// ErrProduction, or ErrForbidden with the forbidden subjects. It tries what
// requests need, and the subscriptions that are named. No node is reached.
func (c *Conn) CheckAccess(ctx context.Context, subscriptions ...string) (account string, err error) {
	if account = c.account(ctx); account == productionAccount {
		return account, ErrProduction
	}
	var forbidden []string
	for _, subject := range append([]string{choria.Inbox(c.sender.collective, c.sender.caller)}, subscriptions...) {
		denied, err := c.denies(ctx, func() (func(), error) { return c.Subscribe(subject, func([]byte) {}) })
		if err != nil {
			return account, err
		}
		if denied {
			forbidden = append(forbidden, "subscribing to "+subject)
		}
	}
	target := choria.NodeDirectedTarget(c.sender.collective, nobody)
	denied, err := c.denies(ctx, func() (func(), error) { return func() {}, c.Publish(target, nil) })
	if err != nil {
		return account, err
	}
	if denied {
		forbidden = append(forbidden, "publishing to "+target)
	}
	if len(forbidden) > 0 {
		return account, fmt.Errorf("%w: %s", ErrForbidden, strings.Join(forbidden, ", "))
	}
	return account, nil
}

// denies reports whether the broker forbids what use does. The broker's answer
// to a ping arrives behind its refusal, which the connection keeps as its last
// error.
func (c *Conn) denies(ctx context.Context, use func() (end func(), err error)) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, accessTimeout)
	defer cancel()
	before := c.nc.LastError()
	end, err := use()
	if err != nil {
		return false, err
	}
	defer end()
	if err := c.nc.FlushWithContext(ctx); err != nil {
		return false, fmt.Errorf("%w: %w", ErrSilent, err)
	}
	last := c.nc.LastError()
	//nolint:errorlint // the same value as before, not an error like it
	return last != nil && last != before && violation.MatchString(last.Error()), nil
}

// CheckElection returns ErrElection when no leader could be elected. The
// election is left as it is.
func (c *Conn) CheckElection(ctx context.Context) error {
	bucket, _, err := c.electionBucket(ctx)
	if err == nil {
		err = checkWrite(ctx, bucket, electionName)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrElection, err)
	}
	return nil
}

// CheckWrite returns ErrStreams when a bucket cannot be written. Nothing is
// stored.
func (r *Records) CheckWrite(ctx context.Context) error {
	for _, bucket := range []jetstream.KeyValue{r.Records, r.Sessions} {
		err := r.ask(ctx, "writing to the bucket "+bucket.Bucket(), func(ctx context.Context) error {
			return checkWrite(ctx, bucket, nobody)
		})
		if err != nil {
			return fmt.Errorf("%w: %w", ErrStreams, err)
		}
	}
	return nil
}

// checkWrite writes a key on a condition that never holds: only a writer who may
// write is told so.
func checkWrite(ctx context.Context, bucket jetstream.KeyValue, key string) error {
	_, err := bucket.Update(ctx, key, nil, math.MaxInt64)
	switch {
	case isTaken(err), isUnderWay(err):
		return nil
	case err == nil:
		return errors.New("it stored what it had to refuse")
	default:
		return err
	}
}
