package provision

import (
	"errors"
	"fmt"
	"sort"
	"time"

	"choria-provision/discovery"
	"choria-provision/provision/installstate"
)

// hold is how long a node is left alone after its restart or shutdown was
// accepted, and after an upgrade failed: it may still answer meanwhile.
const hold = 60 * time.Second

// The steps at which a node ends that no worker gets: discovery found its identity
// twice, or its record does not allow it.
const (
	discoveryStep = "discovery"
	recordStep    = "record"
)

// ownership is the hold of this run on one node: the node's lock, and its
// record, which is written when the first change is about to happen.
type ownership struct {
	store  *installstate.Store
	lock   *installstate.Claim // nil in a dry run
	record installstate.Record
	since  time.Time // when the installation before this one was complete; zero: there was none
}

// acquire locks the node and admits it: what was decided before the lock was held
// may have changed since.
func (r *Runner) acquire(identity string) (*ownership, error) {
	own := &ownership{store: r.Store}
	if !r.DryRun.On {
		lock, err := r.Store.AcquireLock(identity)
		if err != nil {
			return nil, stateCause(err)
		}
		own.lock = lock
	}
	record, disposition, err := r.checkRecord(identity)
	if err != nil {
		own.release()
		return nil, err
	}
	switch disposition {
	case installstate.Fresh:
		own.record = installstate.NewRecord(identity, r.Fingerprint)
	case installstate.AlreadyComplete: // it waits again: sent back, reinstalled, or its restart got lost
		own.record, own.since = record.Successor(), record.Completed
	default:
		own.record = record
	}
	return own, nil
}

// checkRecord asks the record whether we may work on the node now.
func (r *Runner) checkRecord(identity string) (installstate.Record, installstate.Disposition, error) {
	record, disposition, err := installstate.Admit(r.Store, identity, r.Fingerprint)
	if err != nil {
		return record, 0, stateCause(err)
	}
	if now := time.Now(); record.Held(now) && !r.Force {
		return record, 0, fmt.Errorf("%w: for another %s after its %s", ErrHeld, record.HoldUntil.Sub(now).Round(time.Second), heldAfter(record))
	}
	return record, disposition, nil
}

func heldAfter(record installstate.Record) string {
	if record.Phase == installstate.Complete || !record.RestartRequested.IsZero() {
		return "restart"
	}
	return "shutdown or failed upgrade"
}

// saveInstalling makes the record say that the installation is in progress.
func (o *ownership) saveInstalling() error {
	o.record.HoldUntil, o.record.RestartRequested, o.record.ShutDown = time.Time{}, time.Time{}, time.Time{}
	return stateCause(o.store.Save(o.record))
}

// explainGone says of a node that is not connected, and was not seen to wait,
// that it is in service by its record; else it returns err.
func (o *ownership) explainGone(err error) error {
	if o.since.IsZero() {
		return err
	}
	return fmt.Errorf("%w since %s by its record, and does not wait", ErrInService, o.since.Local().Format(time.DateTime))
}

// saveRestartRequested records that the node is about to be asked for its restart, or that
// it surely will not restart. If this process is killed before the reply, the
// node may be restarting and still answer discovery: another sequence would
// change its keys under the configuration it starts with. So the hold begins
// here already.
func (o *ownership) saveRestartRequested(requested bool) error {
	o.record.HoldUntil, o.record.RestartRequested = time.Time{}, time.Time{}
	if requested {
		o.record.RestartRequested = time.Now().UTC().Round(0)
		o.record.HoldUntil = o.record.RestartRequested.Add(hold)
	}
	return stateCause(o.store.Save(o.record))
}

// complete writes what the outcome means for a record that was begun. The node is
// as it is whatever comes of that: the error is the state directory's.
func (o *ownership) complete(outcome Outcome, holdFail bool) error {
	until := time.Now().UTC().Add(hold)
	switch {
	case outcome == Provisioned:
		o.record.HoldUntil = until
		return stateCause(o.store.MarkComplete(o.record))
	case outcome == Shutdown:
		o.record.HoldUntil, o.record.ShutDown = until, time.Now().UTC().Round(0)
		return stateCause(o.store.Save(o.record))
	case outcome == Failed && holdFail:
		o.record.HoldUntil = until
		return stateCause(o.store.Save(o.record))
	default:
		return nil
	}
}

func (o *ownership) release() {
	if o.lock != nil {
		o.lock.Release()
	}
}

// caused is an error of installstate with the cause that an operator knows. It
// reads as the error alone, which says the same in more words.
type caused struct {
	cause, err error
}

func (c *caused) Error() string { return c.err.Error() }

// Unwrap returns the cause and the error.
func (c *caused) Unwrap() []error { return []error{c.cause, c.err} }

// stateCauses maps the errors of installstate; the first match wins.
var stateCauses = []struct{ err, cause error }{
	{installstate.ErrLockHeld, ErrLocked},
	{installstate.ErrOtherInstallation, ErrOwned},
	{installstate.ErrResetting, ErrResetting},
	{installstate.ErrUnavailable, ErrState},
	{installstate.ErrDamaged, ErrState},
	{installstate.ErrOldState, ErrState},
	{installstate.ErrClaimLost, ErrState},
}

func stateCause(err error) error {
	if err == nil {
		return nil
	}
	for _, row := range stateCauses {
		if errors.Is(err, row.err) {
			return &caused{row.cause, err}
		}
	}
	return &caused{ErrRecord, err}
}

// refused is the result of a node that no worker gets.
func refused(s discovery.Sighting, step string, err error) Result {
	n := &node{client: client{identity: s.Identity}, result: Result{Node: s.Identity, Step: step, Started: time.Now()}}
	return n.finish(proceed, err)
}

// admit sorts what was seen into nodes to work on and nodes that are not this
// run's. Fresh nodes come first, then the ones whose last attempt failed or was
// interrupted, so that broken machines cannot starve new ones; the limit cuts
// what is left. When the state fails no node is to blame: all that follow are left
// to the run, which starts none.
func (r *Runner) admit(seen []discovery.Sighting) (queue []discovery.Sighting, skipped []Result, left int) {
	var troubled []discovery.Sighting
	seen = r.prepare(seen)
	for i, s := range seen {
		if s.Err != nil {
			skipped = append(skipped, refused(s, discoveryStep, s.Err))
			continue
		}
		_, disposition, err := r.checkRecord(s.Identity)
		r.noteBroken(err)
		switch {
		case r.broken.Load() != nil:
			return append(append(queue, troubled...), seen[i:]...), skipped, 0
		case err != nil:
			skipped = append(skipped, refused(s, recordStep, err))
		case disposition == installstate.Resume || r.Troubled != nil && r.Troubled(s.Identity):
			troubled = append(troubled, s)
		default:
			queue = append(queue, s)
		}
	}
	sort.Slice(skipped, func(i, j int) bool { return skipped[i].Node < skipped[j].Node })
	queue = append(queue, troubled...)
	if r.Limit > 0 && len(queue) > r.Limit {
		left = len(queue) - r.Limit
		queue = queue[:r.Limit]
	}
	return queue, skipped, left
}
