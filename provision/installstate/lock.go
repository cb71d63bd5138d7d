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
// ends in any way; children do not inherit it. Between AcquireLock and Release
// it belongs to one goroutine.
type Lock struct {
	file    *os.File
	release sync.Once
	tidy    func() // runs while the lock is still held
	made    bool   // the file was not there before
	said    lockText
	length  int64 // of the file, in bytes

	// What holds as long as nobody else may write the machine's record.
	stored *Record // as it is on the disk; nil: not known
	named  bool    // the name of the record's directory is durable
}

// Release frees the lock; more than once does nothing.
func (l *Lock) Release() {
	l.release.Do(func() {
		l.tidy()
		l.said.Holder = nil // or the next holder would pass for us until it has signed
		_ = l.say()
		unlock(l.file)
	})
}

// NoteRestart writes down, or with a zero r.RestartAsked takes back, that the
// configured node is about to be asked for its restart: r's RestartAsked and
// HoldUntil. Load gives them until the record is written again. The note
// outlives this process, not a power cut: after one it is not needed, since a
// node has done with its restart before we are up again.
func (l *Lock) NoteRestart(r Record) error {
	l.said.Restart = nil
	if !r.RestartAsked.IsZero() {
		l.said.Restart = &restartNote{r.InstallationID, r.RestartAsked, r.HoldUntil}
	}
	if err := l.say(); err != nil {
		return unwritable(err)
	}
	return nil
}

// lockText is what a lock file holds. The lock holds without it.
type lockText struct {
	*Holder              // nil: free, or not signed yet
	Restart *restartNote `json:"restart,omitempty"`
}

// restartNote is what NoteRestart keeps.
type restartNote struct {
	InstallationID string    `json:"installation_id"`
	Asked          time.Time `json:"asked"`
	HoldUntil      time.Time `json:"hold_until"`
}

// maxLockText is more than two names, four times and an id take, in bytes.
const maxLockText = 1 << 10

// say writes the text in one go, so that a killed process leaves the one from
// before or this one; blanks cover what the one from before was longer.
func (l *Lock) say() error {
	if l.said == (lockText{}) {
		l.length = 0
		return l.file.Truncate(0)
	}
	text, err := json.Marshal(l.said)
	if err != nil {
		return err
	}
	text = append(text, '\n')
	for int64(len(text)) < min(l.length, maxLockText) {
		text = append(text, '\n')
	}
	_, err = l.file.WriteAt(text, 0)
	l.length = max(l.length, int64(len(text)))
	return err
}

// readLockText returns the zero text where it cannot be read: it is only a help.
func readLockText(file *os.File) lockText {
	text := make([]byte, maxLockText)
	n, _ := file.ReadAt(text, 0)
	var said lockText
	if json.Unmarshal(text[:n], &said) != nil {
		return lockText{}
	}
	return said
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

// lock takes the lock file at path or gives *LockHeld.
func (s *Store) lock(path, what string) (*Lock, error) {
	for range lockTries {
		file, made, err := s.openLock(path)
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
		if info, ok := hasName(file, path); ok {
			lock := &Lock{file: file, tidy: func() {}, made: made, length: info.Size()}
			lock.sign()
			return lock, nil
		}
		unlock(file)
	}
	return nil, &LockHeld{What: what}
}

// openLock opens the file close-on-exec, as package os does, and tells whether
// it made its directory. A releasing process may remove that again before the
// file is in it.
func (s *Store) openLock(path string) (file *os.File, made bool, err error) {
	for try := 1; ; try++ {
		file, err = openFile(path, os.O_RDWR|os.O_CREATE)
		if !errors.Is(err, fs.ErrNotExist) || try == lockTries {
			return file, made, err
		}
		if made, err = s.makeDir(filepath.Dir(path)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, false, err
		}
	}
}

// makeDir makes the store's directory, or a node's and what is missing above it.
// A node's is made durable with the first record in it: most that never get one
// are strangers'.
func (s *Store) makeDir(dir string) (made bool, err error) {
	if dir == s.dir {
		return false, s.disk.ensureDir(dir)
	}
	err = s.disk.mkdir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		if err := s.disk.ensureDir(filepath.Dir(dir)); err != nil {
			return false, err
		}
		err = s.disk.mkdir(dir)
	}
	if errors.Is(err, fs.ErrExist) {
		return false, nil
	}
	return err == nil, err
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
	return retried(func() error { return unix.Flock(int(file.Fd()), how|unix.LOCK_NB) })
}

func hasName(file *os.File, path string) (fs.FileInfo, bool) {
	open, err := file.Stat()
	if err != nil {
		return nil, false
	}
	named, err := os.Stat(path)
	return open, err == nil && os.SameFile(open, named)
}

// sign says who holds the lock. It is for people: the lock holds without it,
// so a disk that is full does not matter here.
func (l *Lock) sign() {
	if !l.made {
		l.said = readLockText(l.file)
	}
	l.said.Holder = &Holder{PID: os.Getpid(), Since: time.Now().UTC().Round(0)}
	_ = l.say()
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
	holder := readLockText(file).Holder
	if holder == nil || holder.PID <= 0 || errors.Is(unix.Kill(holder.PID, 0), syscall.ESRCH) {
		return Holder{}
	}
	return *holder
}

// held reports whether a process holds the lock file at path, and which. It
// makes nothing and never gets in the way of who wants the lock.
func held(path string) (Holder, bool, error) {
	file, err := openFile(path, os.O_RDONLY)
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
