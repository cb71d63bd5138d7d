package installstate

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const runLockFile = "run.lock"

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

func lockRun(dir string) (*RunLock, error) {
	if err := ensureDirectory(dir); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, runLockFile)
	var file *os.File
	err := awaitHandover(func() (err error) {
		file, _, err = openRegular(path)
		return err
	})
	if err != nil {
		return nil, unavailable(path, err)
	}
	switch err := lockExclusive(file); {
	case errors.Is(err, unix.EWOULDBLOCK):
		defer file.Close()
		return nil, &LockHeld{What: "a run", Holder: readHolder(file)}
	case err != nil:
		file.Close()
		return nil, unavailable(path, err)
	}
	writeHolder(file)
	return &RunLock{file: file}, nil
}

// runHolder returns the process that holds the run lock in dir, if one does.
func runHolder(dir string) (Holder, bool, error) {
	return lockHolder(filepath.Join(dir, runLockFile))
}

// lockHolder returns the process that holds the lock on the file at path, if one
// does. It creates nothing and does not get in the way of a process that wants
// the lock.
func lockHolder(path string) (h Holder, held bool, err error) {
	file, err := openPlain(path, os.O_RDONLY)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Holder{}, false, nil
	case err != nil:
		return Holder{}, false, unavailable(path, err)
	}
	defer unlock(file)
	err = flock(file, unix.LOCK_SH)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return readHolder(file), true, nil
	}
	if err != nil {
		return Holder{}, false, unavailable(path, err)
	}
	return Holder{}, false, nil
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
