package installstate

import (
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

// Tables that are not ours are no fault of the file system.
func TestDamagedTablesAreNotTheMachinesFault(t *testing.T) {
	t.Parallel()
	for _, damage := range []string{
		"DROP TABLE stored_values",
		"DROP TABLE nodes; CREATE TABLE nodes (identity TEXT, record TEXT)",
		"UPDATE nodes SET pending = 'maybe'",
		"UPDATE nodes SET revision = 'none'",
	} {
		t.Run(damage, func(t *testing.T) {
			t.Parallel()
			s := openStore(t)
			inPhase(t, s, Complete)
			db, err := sql.Open("sqlite", dataSource(filepath.Join(s.Dir(), DatabaseFile), "FULL"))
			if err == nil {
				_, err = db.Exec(damage)
			}
			if err = errors.Join(err, db.Close()); err != nil {
				t.Fatal(err)
			}
			other := NewStore(s.Dir())
			defer other.Close()
			_, errList := other.List()
			_, errLoad := other.Load(identity)
			for call, err := range map[string]error{"List": errList, "Load": errLoad} {
				if !errors.Is(err, ErrDamaged) || errors.Is(err, ErrUnavailable) {
					t.Errorf("%s: got %v, want ErrDamaged", call, err)
				}
			}
		})
	}
}

// SQLite would name the database, which is whole.
func TestFileInPlaceOfACompanionIsNamed(t *testing.T) {
	t.Parallel()
	plants := map[string]func(path string) error{
		"a link":      func(path string) error { return os.Symlink("/nowhere", path) },
		"a pipe":      func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"a directory": func(path string) error { return os.Mkdir(path, 0o700) },
	}
	for kind, plant := range plants {
		for _, suffix := range []string{"-wal", "-shm"} {
			t.Run(kind+" as "+suffix, func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				path := filepath.Join(dir, DatabaseFile)
				if err := errors.Join(os.WriteFile(path, readDatabase(t), 0o600), plant(path+suffix)); err != nil {
					t.Fatal(err)
				}
				s := NewStore(dir)
				defer s.Close()
				if _, err := s.List(); !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), path+suffix+" is not a regular file") {
					t.Errorf("got %v, want %s named", err, suffix)
				}
			})
		}
	}
}

// At each number of free descriptors that is too small the message says so: what
// is open at the failure counts when the cause is looked for.
func TestTooFewDescriptorsAreNamedWhateverTheirNumber(t *testing.T) {
	t.Parallel()
	for limit := 9; limit < 22; limit++ {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			t.Parallel()
			s := openStore(t)
			inPhase(t, s, Complete)
			c := startChild(t, "files", s.Dir(), fmt.Sprint(limit))
			for range 5 {
				if got := c.line(); strings.Contains(got, ErrUnavailable.Error()) && !strings.Contains(got, "too many open files; raise the limit") {
					t.Errorf("got %q, want the limit named", got)
				}
			}
		})
	}
}

func TestPathIsSaidOnce(t *testing.T) {
	t.Parallel()
	err := unavailable("/state/run.lock", &fs.PathError{Op: "open", Path: "/state/run.lock", Err: unix.ENOTDIR})
	want := "the state cannot be used: /state/run.lock: not a directory; check the file system and the permissions of /state/run.lock"
	if err.Error() != want || !errors.Is(err, unix.ENOTDIR) {
		t.Errorf("got %q, want %q and its cause", err, want)
	}
}

// The owner is not told to become the owner.
func TestPermissionsNameWhatHelps(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Log("only root can become another user: nothing to hold")
		return
	}
	const nobody = 65534 // whom the child becomes, in root's group
	tests := map[string]struct {
		prepare func(dir string) error
		want    string
	}{
		"a directory without the right": {func(dir string) error {
			return errors.Join(os.Chown(dir, nobody, 0), os.Chmod(dir, 0o500))
		}, "chmod u+rwX "},
		"another user's database": {func(dir string) error {
			return os.Chown(dir, nobody, 0)
		}, "state.db; it belongs to root: as root run `chown "},
		"another user's log": {func(dir string) error {
			log := filepath.Join(dir, DatabaseFile+"-wal")
			return errors.Join(os.WriteFile(log, nil, 0o600), os.Chown(dir, nobody, 0), os.Chown(filepath.Join(dir, DatabaseFile), nobody, 0))
		}, "state.db-wal; it belongs to root: as root run `chown "},
		"a group that files do not get": {func(dir string) error {
			return errors.Join(os.Chown(dir, nobody, 4711), os.Chmod(dir, 0o770))
		}, "chmod g+s "},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			err := errors.Join(os.WriteFile(filepath.Join(dir, DatabaseFile), readDatabase(t), 0o600),
				os.Chmod(filepath.Dir(dir), 0o755), os.Chmod(dir, 0o700), test.prepare(dir))
			if err != nil {
				t.Fatal(err)
			}
			c := startChild(t, "other", dir)
			if got := c.line(); !strings.Contains(got, test.want) || strings.Contains(got, "runuser") {
				t.Errorf("got %q, want %q in it", got, test.want)
			}
		})
	}
}

// A file that root is about to give to this user is waited for, and not for ever.
func TestFilesOnTheirWayFromRootAreWaitedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		err := awaitHandover(func() error {
			if tries++; tries < 5 {
				return unavailable("state.db-wal", unix.EACCES)
			}
			return nil
		})
		if err != nil || tries != 5 {
			t.Errorf("got %v after %d tries, want success at the fifth", err, tries)
		}
		start := time.Now()
		err = awaitHandover(func() error { return unavailable("state.db-wal", unix.EACCES) })
		if took := time.Since(start); !errors.Is(err, unix.EACCES) || took > 2*handover {
			t.Errorf("got %v after %v, want the refusal after about %v", err, took, handover)
		}
		tries = 0
		err = awaitHandover(func() error { tries++; return unavailable("state.db", unix.ENOSPC) })
		if !errors.Is(err, unix.ENOSPC) || tries != 1 {
			t.Errorf("got %v after %d tries, want another failure at once", err, tries)
		}
	})
}
