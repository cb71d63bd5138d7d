package installstate

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// AcquireLock takes the lock of one machine, whatever its record says, without
// waiting. When a process holds it already the error is a *LockHeld, which
// unwraps to ErrLockHeld; ErrUnwritable when the lock file cannot be made.
func (s *Store) AcquireLock(machine string) (*Lock, error) {
	lock, err := s.lock(s.lockPath(machine), quote(machine))
	if err != nil {
		return nil, err
	}
	lock.tidy = func() {
		s.locks.Delete(machine)
		s.held.Add(-1)
		s.tidy(machine, lock)
	}
	s.locks.Store(machine, lock)
	s.held.Add(1)
	return lock, nil
}

// AcquireMutationLock takes the machine's lock for ordinary lifecycle work:
// restart, shutdown, reprovision. Beyond the errors of AcquireLock it gives
// ErrInstallationInProgress unless there is no record or it is Complete. A
// record that cannot be used counts as not complete and gives ErrUnusable too.
func (s *Store) AcquireMutationLock(machine string) (*Lock, error) {
	lock, err := s.AcquireLock(machine)
	if err != nil {
		return nil, err
	}
	record, err := s.Load(machine)
	if errors.Is(err, ErrNotFound) || err == nil && record.Phase == Complete {
		return lock, nil
	}
	lock.Release()
	var bad *RecordError
	switch {
	case errors.As(err, &bad):
		bad.causes = append(bad.causes, ErrInstallationInProgress)
		return nil, bad
	case err != nil:
		return nil, err
	default:
		return nil, s.inProgress(record)
	}
}

// AcquireRunLock takes the lock that one `once` or `watch` holds while it runs.
// Until it is released, records that are written at the same time through this
// Store share their flush. The errors are those of AcquireLock.
func (s *Store) AcquireRunLock() (*Lock, error) {
	lock, err := s.lock(s.runLockPath(), "a run")
	if err != nil {
		return nil, err
	}
	if err := cmp.Or(s.catchUp(), s.startJournal()); err != nil {
		lock.Release()
		return nil, err
	}
	lock.tidy = s.stopJournal
	return lock, nil
}

// Holder reports whether a process is at work on the machine now, and which.
// It makes nothing and disturbs nobody.
func (s *Store) Holder(machine string) (Holder, bool, error) { return held(s.lockPath(machine)) }

// RunHolder reports whether a run is at work now, and which process that is.
func (s *Store) RunHolder() (Holder, bool, error) { return held(s.runLockPath()) }

func (s *Store) lockPath(machine string) string { return filepath.Join(s.nodeDir(machine), lockFile) }

func (s *Store) runLockPath() string { return filepath.Join(s.dir, runLockFile) }

// tidy removes what a machine without record leaves behind, while its lock is
// held: strangers can invent identities without end, and each would take
// a directory for ever. Whoever waits for the lock sees that its file has lost
// its name (see lock).
func (s *Store) tidy(machine string, lock *Lock) {
	dir := s.nodeDir(machine)
	if !lock.made {
		s.removeTemporary(dir)
	}
	if lock.stored != nil {
		return
	}
	if _, err := os.Lstat(s.RecordPath(machine)); !errors.Is(err, fs.ErrNotExist) {
		return
	}
	_ = os.Remove(s.lockPath(machine))
	_ = os.Remove(dir) // stays when something else is in it
}

// removeTemporary removes the half-written files of killed processes.
func (s *Store) removeTemporary(dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, entry := range entries {
		if isTemporary(entry.Name()) {
			_ = os.Remove(filepath.Join(dir, entry.Name()))
		}
	}
}
