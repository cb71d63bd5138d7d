package installstate

import (
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// The owner of the state directory may plant a link in it; root, which runs a
// command there, must neither remove nor make files behind it.
func TestFilesBehindALinkInPlaceOfTheSessionsStay(t *testing.T) {
	t.Parallel()
	dir, elsewhere := t.TempDir(), t.TempDir()
	names := []string{"precious", rand.Text()}
	for _, name := range names {
		if err := os.WriteFile(filepath.Join(elsewhere, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(elsewhere, filepath.Join(dir, sessionsDir)); err != nil {
		t.Fatal(err)
	}
	s := NewStore(dir)
	defer s.Close()
	lock, err := s.AcquireRunLock()
	if err != nil {
		t.Fatal(err)
	}
	lock.Release()
	if _, err := s.AcquireLock(identity); !errors.Is(err, ErrUnavailable) {
		t.Errorf("got %v, want the link refused", err)
	}
	left, err := os.ReadDir(elsewhere)
	if err != nil || len(left) != len(names) {
		t.Errorf("got %v, %v behind the link, want the %d files that were there", left, err, len(names))
	}
}

// What is not a session is not this program's to remove.
func TestOnlySessionsAreRemovedAsDead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	sessions := filepath.Join(dir, sessionsDir)
	dead := filepath.Join(sessions, rand.Text())
	kept := filepath.Join(sessions, "notes.txt")
	err := errors.Join(os.Mkdir(sessions, 0o700), os.WriteFile(dead, nil, 0o600), os.WriteFile(kept, nil, 0o600))
	if err != nil {
		t.Fatal(err)
	}
	removeDeadSessions(dir)
	if _, err := os.Stat(dead); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v for a dead session, want it removed", err)
	}
	if _, err := os.Stat(kept); err != nil {
		t.Errorf("got %v, want the file kept", err)
	}
}

// A process that removes dead sessions may take a new file for one. Until it has
// removed the file, the file is there and locked by that process: a session that
// started then would have no lock, and its claims would be free to all.
func TestSessionStartsOnlyWithItsOwnLock(t *testing.T) {
	t.Parallel()
	sessions, id := t.TempDir(), rand.Text()
	remover, _, err := openRegular(filepath.Join(sessions, id))
	if err != nil {
		t.Fatal(err)
	}
	defer remover.Close()
	if err := flock(remover, unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if s, err := tryStartSession(sessions, id); s != nil || err != nil {
		t.Errorf("got %+v, %v, want no session without its lock", s, err)
	}
}

// A damaged row must not make every other node's state unknown.
func TestRowWithAForeignSessionIsFree(t *testing.T) {
	t.Parallel()
	s := openStore(t)
	for _, id := range []string{"a/b", "..", string(make([]byte, 300)), "text"} {
		if h, alive, err := s.engine.holder(id, true); alive || err != nil {
			t.Errorf("%.10q: got %v, %t, %v, want it dead", id, h, alive, err)
		}
	}
}

// A run must find out before it calls anybody that it can claim no node.
func TestCheckWritableFindsThatNothingCanBeClaimed(t *testing.T) {
	t.Parallel()
	s := openStore(t)
	if err := os.WriteFile(filepath.Join(s.Dir(), sessionsDir), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.CheckWritable(); !errors.Is(err, ErrUnavailable) {
		t.Errorf("got %v, want ErrUnavailable", err)
	}
}

// A kill while the database is made leaves half of one under another name.
func TestRunRemovesHalfADatabase(t *testing.T) {
	t.Parallel()
	s := openStore(t)
	inPhase(t, s, Complete)
	left := filepath.Join(s.Dir(), newPrefix+"123")
	if err := errors.Join(os.Mkdir(left, 0o700), os.WriteFile(filepath.Join(left, DatabaseFile), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	lock, err := s.AcquireRunLock()
	if err != nil {
		t.Fatal(err)
	}
	lock.Release()
	if _, err := os.Lstat(left); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want it removed", err)
	}
}
