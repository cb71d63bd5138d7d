package installstate

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"
)

// Claim is this process's exclusive right to work on one node. It ends with
// Release or with the process. Between AcquireLock and Release it belongs to one
// goroutine.
type Claim struct {
	store    *Store
	identity string
	release  sync.Once
	row      atomic.Pointer[row] // see written
}

// written returns the node's row as this process wrote it last, nil before the
// claim is in it. A nil claim has none.
func (c *Claim) written() *row {
	if c == nil {
		return nil
	}
	return c.row.Load()
}

func (c *Claim) wrote(r row) {
	if c != nil {
		c.row.Store(&r)
	}
}

// claimOn returns the claim that is held on the node through this Store, or nil.
func (s *Store) claimOn(identity string) *Claim {
	held, _ := s.claims.Load(identity)
	claim, _ := held.(*Claim)
	return claim
}

// AcquireLock claims one node for this process, whatever its record says, and
// does not wait. When a living process has it the error is a *LockHeld, which
// unwraps to ErrLockHeld; the claim of a dead one is free. Other errors are those
// of Load.
func (s *Store) AcquireLock(identity string) (*Claim, error) {
	claim := &Claim{store: s, identity: identity}
	session, taken, err := s.enter(claim)
	if err != nil {
		return nil, err
	}
	if taken {
		return nil, s.heldBy(session, identity)
	}
	err = s.change(identity, false, func(current row) (row, error) {
		// A row with this session and without a claim in the map was left by a
		// release that could not be written.
		if current.session != "" && current.session != session {
			if err := s.heldBy(current.session, identity); err != nil {
				return row{}, err
			}
		}
		current.session, current.pending = session, current.pending || current.record == nil
		return current, nil
	})
	if err != nil {
		s.claims.Delete(identity)
		return nil, err
	}
	return claim, nil
}

// enter lists the claim and returns the session that it is for. The engine may
// begin another session only while no claim is listed: the deadline of the store
// is that of all its claims.
func (s *Store) enter(c *Claim) (session string, taken bool, err error) {
	s.acquiring.Lock()
	defer s.acquiring.Unlock()
	session, err = s.engine.session(s.idle())
	if err == nil {
		_, taken = s.claims.LoadOrStore(c.identity, c)
	}
	return session, taken, err
}

// idle reports whether no claim is held.
func (s *Store) idle() bool {
	for range s.claims.Range {
		return false
	}
	return true
}

// heldBy returns *LockHeld when the session's process lives, nil when it is gone.
func (s *Store) heldBy(session, identity string) error {
	h, alive, err := s.engine.holder(session, true)
	if err != nil || !alive {
		return err
	}
	return &LockHeld{What: quote(identity), Holder: h}
}

// Release ends the claim. A row without a record goes with it: a hostile node can
// invent identities without end. More than one call does nothing. A release that
// cannot be written leaves the claim to the end of the process; this process can
// claim the node again.
func (c *Claim) Release() {
	c.release.Do(func() {
		_ = c.store.change(c.identity, false, func(current row) (row, error) {
			current.session = ""
			return current, nil
		})
		c.store.claims.Delete(c.identity)
	})
}

// AcquireMutationLock claims the node for ordinary lifecycle work: restart,
// shutdown, reprovision. Beyond the errors of AcquireLock it returns
// ErrInstallationInProgress unless there is no record, it is Complete, or the
// node was shut down on the helper's request. A record that cannot be used counts
// as not complete and is ErrUnusable too.
func (s *Store) AcquireMutationLock(identity string) (*Claim, error) {
	claim, err := s.AcquireLock(identity)
	if err != nil {
		return nil, err
	}
	record, err := s.Load(identity)
	if errors.Is(err, ErrNotFound) || err == nil && record.ended() {
		return claim, nil
	}
	claim.Release()
	var bad *RecordError
	switch {
	case errors.As(err, &bad):
		bad.causes = append(bad.causes, ErrInstallationInProgress)
		return nil, bad
	case err != nil:
		return nil, err
	default:
		return nil, inProgress(record)
	}
}

// Deadline returns the time after which the claims of this process may be
// another's; zero while it holds none, or when they last as long as the process.
func (s *Store) Deadline() time.Time {
	if s.idle() {
		return time.Time{}
	}
	return s.engine.deadline()
}

// CheckClaims returns ErrClaimLost when the deadline has passed by either clock:
// the monotonic one stands still while a machine sleeps, the other can be set
// back.
func (s *Store) CheckClaims() error {
	deadline, now := s.Deadline(), time.Now()
	if deadline.IsZero() || now.Before(deadline) && now.Round(0).Before(deadline.Round(0)) {
		return nil
	}
	return fmt.Errorf("%w: the session of this process was not renewed in time", ErrClaimLost)
}

// AcquireRunLock takes the lock that one `once` or `watch` on this host holds
// while it runs, and removes what dead processes left: session files, half a
// database, and rows without a record. When a run is at work the error is a *LockHeld.
func (s *Store) AcquireRunLock() (*RunLock, error) {
	if err := ensureDirectory(s.dir); err != nil {
		return nil, err
	}
	file, err := takeLock(filepath.Join(s.dir, runLockFile))
	if err != nil {
		return nil, err
	}
	lock := &RunLock{file: file}
	removeDeadSessions(s.dir)
	removeLeftovers(s.dir)
	if err := s.removeAbandoned(); err != nil {
		lock.Release()
		return nil, err
	}
	return lock, nil
}

// RunHolder returns the process that runs `once` or `watch` on this host now, if
// one does. It creates nothing.
func (s *Store) RunHolder() (h Holder, running bool, err error) {
	return lockHolder(filepath.Join(s.dir, runLockFile))
}

// removeAbandoned removes rows that have no record and a dead session.
func (s *Store) removeAbandoned() error {
	var abandoned []string
	err := s.engine.each(true, func(identity string, r row) error {
		if r.record != nil {
			return nil
		}
		_, alive, err := s.engine.holder(r.session, true)
		if err == nil && !alive {
			abandoned = append(abandoned, identity)
		}
		return err
	})
	for _, identity := range abandoned {
		if claim, err := s.AcquireLock(identity); err == nil {
			claim.Release()
		}
	}
	return err
}
