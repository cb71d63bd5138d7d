package provision

import (
	"context"
	"errors"
	"time"

	"choria-provision/provision/installstate"

	"golang.org/x/sync/errgroup"
)

// pingTimeout is how long a node has to show that it is still there; the broker
// tells at once when it is not.
const pingTimeout = 2 * time.Second

// completeTimeout bounds the whole of it: what is left is left to the next run.
const completeTimeout = 5 * time.Second

// Settle completes what was cut off at its very end: a node that was configured
// and asked for its restart by a run that did not live to hear the answer. Such
// a node is in service and never waits again, so no sequence would ever finish
// its record. That it left provisioning is asked of the broker; one that is
// still there is left to the next sequence. A state directory that fails shows
// in StateErr.
func (r *Runner) Settle(ctx, stop context.Context) {
	machines, err := r.Store.RestartRequested()
	if err != nil {
		err = stateCause(err)
		r.broken.CompareAndSwap(nil, &err)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, completeTimeout)
	defer cancel()
	var group errgroup.Group
	group.SetLimit(r.Config.Workers)
	for _, identity := range machines {
		if r.ended(ctx, stop) {
			break
		}
		group.Go(func() error {
			r.completeOne(ctx, identity)
			return nil
		})
	}
	_ = group.Wait() // the functions return nil
}

func (r *Runner) completeOne(ctx context.Context, identity string) {
	lock, err := r.Store.AcquireLock(identity)
	if err != nil {
		return // the process at work on it has its record
	}
	defer lock.Release()
	record, disposition, err := installstate.Admit(r.Store, identity, r.Fingerprint)
	if err != nil || disposition != installstate.Resume || record.RestartRequested.IsZero() || !r.leftProvisioning(ctx, identity) {
		return
	}
	if err := stateCause(r.Store.MarkComplete(record)); err != nil {
		r.broken.CompareAndSwap(nil, &err)
		return
	}
	r.Tell(Notice{Node: identity, Step: restartStep, Text: "a run that was cut off had asked for it; the node has left provisioning, so it is complete"})
}

// leftProvisioning reports whether the broker has no node of this name in
// provisioning.
func (r *Runner) leftProvisioning(ctx context.Context, identity string) bool {
	bounded, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	_, err := r.RPC.Request(bounded, identity, "rpcutil#ping", struct{}{})
	return errors.Is(err, ErrGone)
}

// restartStep is the row that completes a change.
const restartStep = "restart"
