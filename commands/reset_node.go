package commands

import (
	"context"
	"errors"
	"fmt"

	"choria-provision/output"
	"choria-provision/provision/installstate"
)

// sendReprovision sends one node back to provisioning mode; nil means that it
// accepted.
type sendReprovision func(ctx context.Context, identity string) error

// resetter forgets records: one node after the other, each under its lock.
type resetter struct {
	store *installstate.Store
	send  sendReprovision // nil: leave the nodes alone
}

// The outcomes of a reset; the texts are part of the JSON document.
const (
	resetForgotten     = "forgotten"
	resetReprovisioned = "sent back to provisioning mode and forgotten"
	resetNone          = "no record"
	resetLocked        = "locked"
	resetFailed        = "failed"
)

// resetResult is what became of one node.
type resetResult struct {
	Identity string `json:"identity"`
	Outcome  string `json:"outcome"`
	Error    string `json:"error,omitempty"`
}

// resetAll goes on after a node that failed, but not when the signal came or
// the state directory cannot be written. Its error decides the exit code;
// what it says beyond the results is only why it stopped early.
func (r resetter) resetAll(stop context.Context, names []string) ([]resetResult, error) {
	var results []resetResult
	var failed, locked bool
	for _, name := range names {
		if stop.Err() != nil {
			return results, fmt.Errorf("%w: %w", errInterrupted, context.Cause(stop))
		}
		outcome, err := r.reset(stop, name)
		result := resetResult{Identity: name, Outcome: outcome}
		if err != nil {
			result.Error = output.Escape(err.Error())
		}
		results = append(results, result)
		if errors.Is(err, installstate.ErrUnavailable) || errors.Is(err, installstate.ErrDamaged) {
			return results, silent{err}
		}
		failed, locked = failed || outcome == resetFailed, locked || outcome == resetLocked
	}
	switch {
	case failed:
		return results, silent{errNodesFailed}
	case locked:
		return results, silent{errNothing}
	default:
		return results, nil
	}
}

// reset turns the record to resetting before anything happens to the node, so
// that an interrupted reset is seen, and does all of it again after one.
func (r resetter) reset(ctx context.Context, name string) (outcome string, err error) {
	lock, err := r.store.AcquireLock(name)
	if errors.Is(err, installstate.ErrLockHeld) {
		return resetLocked, err
	}
	if err != nil {
		return resetFailed, err
	}
	defer lock.Release()

	err = r.store.BeginReset(name)
	recorded := !errors.Is(err, installstate.ErrNotFound)
	if err != nil && recorded {
		return resetFailed, err
	}
	if r.send != nil {
		if err := r.send(ctx, name); err != nil {
			return resetFailed, notSentBack(name, recorded, err)
		}
	}
	if recorded {
		if err := r.store.Remove(name); err != nil {
			return resetFailed, err
		}
	}
	switch {
	case r.send != nil:
		return resetReprovisioned, nil
	case recorded:
		return resetForgotten, nil
	default:
		return resetNone, nil
	}
}

func notSentBack(name string, recorded bool, err error) error {
	if !recorded {
		return fmt.Errorf("%s: not sent back to provisioning mode: %w", name, err)
	}
	return fmt.Errorf("%s: not sent back to provisioning mode: %w; its record stays `resetting`: the same command tries again, without --reprovision it only forgets the record", name, err)
}

// forgetInReport removes the nodes that were reset from the reports of the last
// runs: status would show failures of what is no longer known. A report that
// cannot be read shows nothing of them either.
func forgetInReport(store *installstate.Store, results []resetResult) error {
	return store.EditLastReports(func(packed []byte) ([]byte, error) {
		report, err := output.ReadReport(packed)
		if err != nil {
			return nil, nil
		}
		forgotten := false
		for _, r := range results {
			if r.Error == "" && report.Forget(r.Identity) {
				forgotten = true
			}
		}
		if !forgotten {
			return nil, nil
		}
		return report.Pack()
	})
}
