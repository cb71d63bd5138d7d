package installstate

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// sessionsDir holds a file per process at work. The kernel lock on the file
// proves that its process lives.
const sessionsDir = "sessions"

// fileSession is this process's session in a state directory.
type fileSession struct {
	id   string
	path string
	file *os.File
}

// startSession creates and locks this process's session file in dir.
func startSession(dir string) (s *fileSession, err error) {
	sessions := filepath.Join(dir, sessionsDir)
	if err := makeSessionsDir(dir, sessions); err != nil {
		return nil, unavailable(sessions, err)
	}
	err = awaitHandover(func() (err error) {
		for s == nil && err == nil {
			s, err = tryStartSession(sessions, rand.Text())
		}
		return err
	})
	return s, err
}

// makeSessionsDir creates the directory for the owner of the state directory.
func makeSessionsDir(dir, sessions string) error {
	if err := os.Mkdir(sessions, 0o700); err != nil {
		if os.IsExist(err) {
			return checkSessionsDir(sessions)
		}
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
	if err := opened.Chmod(0o700 | parent.Mode().Perm()&0o070); err != nil {
		return err
	}
	if uid, gid := ownerOf(parent); os.Geteuid() == 0 && uid != 0 {
		return opened.Chown(uid, gid)
	}
	return nil
}

// checkSessionsDir refuses a link, which may have been planted to have files made
// elsewhere.
func checkSessionsDir(sessions string) error {
	info, err := os.Lstat(sessions)
	if err == nil && !info.IsDir() {
		err = errors.New("it is not a directory")
	}
	return err
}

// tryStartSession returns nil when another process took the new file for a dead
// one's: it holds the lock and removes the file, or has removed it already.
func tryStartSession(sessions, id string) (*fileSession, error) {
	s := &fileSession{id: id}
	s.path = filepath.Join(sessions, s.id)
	file, _, err := openRegular(s.path)
	if err != nil {
		return nil, unavailable(s.path, err)
	}
	s.file = file
	switch err := lockExclusive(file); {
	case errors.Is(err, unix.EWOULDBLOCK):
		file.Close()
		return nil, nil
	case err != nil:
		file.Close()
		return nil, unavailable(s.path, err)
	}
	opened, err := file.Stat()
	named, errNamed := os.Lstat(s.path)
	if err != nil || errNamed != nil || !os.SameFile(opened, named) {
		unlock(file)
		return nil, nil
	}
	writeHolder(file)
	return s, nil
}

func (s *fileSession) end() {
	_ = os.Remove(s.path)
	unlock(s.file)
}

// sessionHolder returns the process behind a session in dir, and whether it
// lives. A session without a file is dead.
func sessionHolder(dir, id string) (Holder, bool, error) {
	if !isSessionID(id) { // a row that another program wrote
		return Holder{}, false, nil
	}
	return lockHolder(filepath.Join(dir, sessionsDir, id))
}

// isSessionID tells what rand.Text makes from any other name.
func isSessionID(name string) bool {
	return len(name) == 26 && strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") == ""
}

// removeDeadSessions removes what killed processes leave, and nothing else. What
// cannot be removed does no harm: a file without a lock is a dead session. An
// os.Root follows no link out of the state directory, which root may share with
// an owner that plants one.
func removeDeadSessions(dir string) {
	state, err := os.OpenRoot(dir)
	if err != nil {
		return
	}
	defer state.Close()
	sessions, err := state.OpenRoot(sessionsDir)
	if err != nil {
		return
	}
	defer sessions.Close()
	entries, err := fs.ReadDir(sessions.FS(), ".")
	if err != nil {
		return
	}
	for _, entry := range entries {
		if isSessionID(entry.Name()) {
			removeUnlocked(sessions, entry.Name())
		}
	}
}

// removeUnlocked removes the file while it holds the lock: the file may be a
// session that starts just now.
func removeUnlocked(sessions *os.Root, name string) {
	file, err := sessions.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return
	}
	defer unlock(file)
	if flock(file, unix.LOCK_EX) == nil {
		_ = sessions.Remove(name)
	}
}
