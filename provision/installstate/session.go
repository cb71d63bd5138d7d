package installstate

import (
	"crypto/rand"
	"errors"
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
func startSession(dir string) (*fileSession, error) {
	sessions := filepath.Join(dir, sessionsDir)
	if err := makeSessionsDir(dir, sessions); err != nil {
		return nil, unavailable(sessions, err)
	}
	for {
		s, err := tryStartSession(sessions)
		if s != nil || err != nil {
			return s, err
		}
	}
}

// makeSessionsDir creates the directory for the owner of the state directory.
func makeSessionsDir(dir, sessions string) error {
	if err := os.Mkdir(sessions, 0o700); err != nil {
		if os.IsExist(err) {
			return nil
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

// tryStartSession returns nil when another process took the new file for a dead
// one's and removed it before it was locked.
func tryStartSession(sessions string) (*fileSession, error) {
	s := &fileSession{id: rand.Text()}
	s.path = filepath.Join(sessions, s.id)
	file, _, err := openRegular(s.path)
	if err != nil {
		return nil, unavailable(s.path, err)
	}
	s.file = file
	if err := lockExclusive(file); err != nil && !errors.Is(err, unix.EWOULDBLOCK) {
		file.Close()
		return nil, unavailable(s.path, err)
	}
	opened, err := file.Stat()
	named, errNamed := os.Lstat(s.path)
	if err != nil || errNamed != nil || !os.SameFile(opened, named) { // also after EWOULDBLOCK: its remover has it
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
	if id == "" || strings.ContainsAny(id, "/.") { // a row that another program wrote
		return Holder{}, false, nil
	}
	return lockHolder(filepath.Join(dir, sessionsDir, id))
}

// removeDeadSessions removes what killed processes leave. What cannot be removed
// does no harm: a file without a lock is a dead session.
func removeDeadSessions(dir string) {
	sessions := filepath.Join(dir, sessionsDir)
	entries, err := os.ReadDir(sessions)
	if err != nil {
		return
	}
	for _, entry := range entries {
		removeUnlocked(filepath.Join(sessions, entry.Name()))
	}
}

// removeUnlocked removes the file while it holds the lock: the file may be a
// session that starts just now.
func removeUnlocked(path string) {
	file, err := openPlain(path, os.O_RDONLY)
	if err != nil {
		return
	}
	defer unlock(file)
	if flock(file, unix.LOCK_EX) == nil {
		_ = os.Remove(path)
	}
}
