package installstate

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Holder is the process that holds a lock, as far as it said so itself.
type Holder struct {
	PID   int       `json:"pid"`     // 0: not known
	Since time.Time `json:"started"` // when it took the lock, UTC
}

func (h Holder) String() string {
	if h.PID == 0 {
		return "it did not say which"
	}
	return fmt.Sprintf("process %d, started %s", h.PID, h.Since.Format(time.RFC3339))
}

// LockHeld is an attempt to take a lock that a process holds. It unwraps to
// ErrLockHeld.
type LockHeld struct {
	What   string // the machine, or "a run"
	Holder Holder
}

func (e *LockHeld) Error() string {
	return fmt.Sprintf("%s: %v: %s; try again when it is done", e.What, ErrLockHeld, e.Holder)
}

// Unwrap returns ErrLockHeld.
func (e *LockHeld) Unwrap() error { return ErrLockHeld }

// Lock is a kernel lock (flock) on a file. The kernel frees it when the process
// ends in any way; children do not inherit it.
type Lock struct {
	file    *os.File
	release sync.Once
	tidy    func() // runs while the lock is still held
}

// Release frees the lock; more than once does nothing.
func (l *Lock) Release() {
	l.release.Do(func() {
		l.tidy()
		_ = l.file.Truncate(0) // or the next holder would pass for us until it has signed
		unlock(l.file)
	})
}

// unlock does not leave it to closing: a child that is being started shares
// the open file until it runs its own program, and would keep the lock so long.
func unlock(file *os.File) {
	_ = flock(file, unix.LOCK_UN)
	file.Close()
}

// lockTries bounds how often a lock file that vanishes under our hands is made
// again; each time somebody else has just released it.
const lockTries = 1000

// lock takes the lock file at path or gives *LockHeld. tidy is for Release.
func (s *Store) lock(path, what string, tidy func()) (*Lock, error) {
	for range lockTries {
		file, err := s.openLock(path)
		if err != nil {
			return nil, unwritable(err)
		}
		err = exclusive(file)
		if errors.Is(err, unix.EWOULDBLOCK) {
			defer file.Close()
			return nil, &LockHeld{What: what, Holder: waitForHolder(file)}
		}
		if err != nil {
			file.Close()
			return nil, fmt.Errorf("locking %s: %w", path, err)
		}
		// The one before us may have removed the file after we opened it: a
		// lock on a file without a name keeps nobody out.
		if hasName(file, path) {
			sign(file)
			return &Lock{file: file, tidy: tidy}, nil
		}
		unlock(file)
	}
	return nil, &LockHeld{What: what}
}

// openLock opens the file close-on-exec, as package os does. The directory may
// be removed by a releasing process between making it and opening the file.
func (s *Store) openLock(path string) (*os.File, error) {
	for try := 1; ; try++ {
		if err := s.disk.ensureDir(filepath.Dir(path)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if errors.Is(err, fs.ErrNotExist) && try < lockTries {
			continue
		}
		return file, err
	}
}

// exclusive takes the lock without waiting. Who only looks (see held) has it
// shared for an instant; that must not count as a holder, so a refusal is
// believed only when a shared lock is refused as well.
func exclusive(file *os.File) error {
	for {
		err := flock(file, unix.LOCK_EX)
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return err
		}
		if err := flock(file, unix.LOCK_SH); err != nil {
			return err
		}
		if err := flock(file, unix.LOCK_UN); err != nil {
			return err
		}
		time.Sleep(time.Millisecond)
	}
}

func flock(file *os.File, how int) error {
	for {
		err := unix.Flock(int(file.Fd()), how|unix.LOCK_NB)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

func hasName(file *os.File, path string) bool {
	open, err := file.Stat()
	if err != nil {
		return false
	}
	named, err := os.Stat(path)
	return err == nil && os.SameFile(open, named)
}

// sign says who holds the lock. It is for people: the lock holds without it,
// so a disk that is full does not matter here.
func sign(file *os.File) {
	text, err := json.Marshal(Holder{PID: os.Getpid(), Since: time.Now().UTC().Round(0)})
	if err == nil && file.Truncate(0) == nil {
		_, _ = file.WriteAt(append(text, '\n'), 0)
	}
}

// waitForHolder gives a process that has just taken the lock a moment to sign.
func waitForHolder(file *os.File) Holder {
	var holder Holder
	for range 200 {
		if holder = readHolder(file); holder.PID != 0 {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	return holder
}

// readHolder returns the zero Holder when the file was not signed or by a
// process that is no more: a killed holder leaves its signature behind.
func readHolder(file *os.File) Holder {
	text := make([]byte, 256)
	n, _ := file.ReadAt(text, 0)
	var holder Holder
	if json.Unmarshal(text[:n], &holder) != nil || holder.PID <= 0 {
		return Holder{}
	}
	if errors.Is(unix.Kill(holder.PID, 0), syscall.ESRCH) {
		return Holder{}
	}
	return holder
}

// held reports whether a process holds the lock file at path, and which. It
// makes nothing and never gets in the way of who wants the lock.
func held(path string) (Holder, bool, error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Holder{}, false, nil
	}
	if err != nil {
		return Holder{}, false, err
	}
	defer unlock(file)
	err = flock(file, unix.LOCK_SH)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return readHolder(file), true, nil
	}
	return Holder{}, false, err
}
