package installstate

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	runLockFile = "run.lock"
	sessionsDir = "sessions" // a locked file for each process at work
)

// RunLock is the kernel lock of the one run on this host. The kernel releases it
// when the process ends; children do not inherit it.
type RunLock struct {
	file    *os.File
	release sync.Once
}

// Release ends the lock. More than one call does nothing.
func (l *RunLock) Release() {
	l.release.Do(func() {
		_ = l.file.Truncate(0)
		unlock(l.file)
	})
}

// fileSession is this process's session in a state directory. The kernel lock on
// its file proves that the process lives.
type fileSession struct {
	id   string
	file *os.File
}

// startSession creates and locks this process's session file in dir.
func startSession(dir string) (s *fileSession, err error) {
	sessions := filepath.Join(dir, sessionsDir)
	if err := ensureSessionsDir(dir, sessions); err != nil {
		return nil, unavailable(sessions, err)
	}
	for s == nil && err == nil {
		s, err = tryStartSession(sessions, rand.Text())
	}
	return s, err
}

// ensureSessionsDir makes the directory for the owner of the state directory. It
// refuses a link, which may have been planted to have files made elsewhere.
func ensureSessionsDir(dir, sessions string) error {
	err := os.Mkdir(sessions, 0o700)
	if errors.Is(err, fs.ErrExist) {
		info, err := os.Lstat(sessions)
		if err == nil && !info.IsDir() {
			err = errors.New("it is not a directory")
		}
		return err
	}
	if err != nil {
		return err
	}
	parent, err := os.Stat(dir)
	if err != nil {
		return err
	}
	opened, err := os.Open(sessions)
	if err != nil {
		return err
	}
	defer opened.Close()
	return give(opened, parent, 0o700|parent.Mode().Perm()&0o070)
}

// tryStartSession returns nil when another process took the new file for a dead
// one's: it holds the lock and removes the file, or has removed it already.
func tryStartSession(sessions, id string) (*fileSession, error) {
	file, err := takeLock(filepath.Join(sessions, id))
	if errors.Is(err, ErrLockHeld) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	opened, err := file.Stat()
	named, errNamed := os.Lstat(file.Name())
	if err != nil || errNamed != nil || !os.SameFile(opened, named) {
		unlock(file)
		return nil, nil
	}
	return &fileSession{id, file}, nil
}

func (s *fileSession) end() {
	_ = os.Remove(s.file.Name())
	unlock(s.file)
}

// isSession tells what rand.Text makes from any other text.
func isSession(id string) bool {
	return len(id) == 26 && strings.Trim(id, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") == ""
}

// removeDeadSessions removes what killed processes leave. What cannot be removed
// does no harm: a file without a lock is a dead session.
func removeDeadSessions(dir string) {
	eachFile(dir, sessionsDir, func(sessions *os.Root, name string) {
		if !isSession(name) {
			return
		}
		file, err := sessions.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
		if err != nil {
			return
		}
		defer unlock(file)
		if flock(file, unix.LOCK_EX) == nil { // else it starts just now
			_ = sessions.Remove(name)
		}
	})
}

// eachFile visits the files of a directory in the state directory. An os.Root
// follows no link out of that, which root may share with an owner that plants one.
func eachFile(dir, name string, visit func(in *os.Root, name string)) {
	state, err := os.OpenRoot(dir)
	if err != nil {
		return
	}
	defer state.Close()
	in, err := state.OpenRoot(name)
	if err != nil {
		return
	}
	defer in.Close()
	entries, _ := fs.ReadDir(in.FS(), ".")
	for _, entry := range entries {
		visit(in, entry.Name())
	}
}

// takeLock locks the file for this process, which it names there. A missing file
// is made. When a living process has the lock the error is a *LockHeld.
func takeLock(path string) (file *os.File, err error) {
	err = awaitHandover(func() (err error) {
		file, _, err = openRegular(path)
		return err
	})
	if err != nil {
		return nil, unavailable(path, err)
	}
	if err := lockExclusive(file); err != nil {
		defer file.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, &LockHeld{What: "a run", Holder: readHolder(file)}
		}
		return nil, unavailable(path, err)
	}
	writeHolder(file)
	return file, nil
}

// lockHolder returns the process that holds the lock on the file at path, if one
// does. It creates nothing and does not get in the way of a process that wants
// the lock.
func lockHolder(path string) (h Holder, held bool, err error) {
	file, err := openPlain(path, os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return Holder{}, false, nil
	}
	if err == nil {
		defer unlock(file)
		err = flock(file, unix.LOCK_SH)
	}
	if errors.Is(err, unix.EWOULDBLOCK) {
		return readHolder(file), true, nil
	}
	return Holder{}, false, unavailable(path, err)
}

// lockExclusive takes the lock without waiting. lockHolder has it shared for an
// instant, which must not count as held: a refusal is believed only when a shared
// lock is refused as well.
func lockExclusive(file *os.File) error {
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
		if err := unix.Flock(int(file.Fd()), how|unix.LOCK_NB); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// unlock does not leave it to closing: a child that is being started shares the
// open file until it executes its own program, and would keep the lock so long.
func unlock(file *os.File) {
	_ = flock(file, unix.LOCK_UN)
	file.Close()
}

// writeHolder names this process in its lock file. It is for people: the lock
// holds without it, so a full disk does not matter.
func writeHolder(file *os.File) {
	text, err := json.Marshal(Holder{PID: os.Getpid(), Since: time.Now().UTC().Round(0)})
	if err == nil && file.Truncate(0) == nil {
		_, _ = file.WriteAt(append(text, '\n'), 0)
	}
}

// readHolder returns the zero Holder when the process did not name itself yet.
func readHolder(file *os.File) (h Holder) {
	text, err := io.ReadAll(io.NewSectionReader(file, 0, 1<<10))
	if err != nil || json.Unmarshal(text, &h) != nil || h.PID <= 0 {
		return Holder{}
	}
	return h
}
