package installstate

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestFilesArePrivate(t *testing.T) {
	t.Parallel()
	s := NewStore(filepath.Join(t.TempDir(), "state"))
	defer s.Close()
	defer acquire(t, s.AcquireLock).Release()
	run, err := s.AcquireRunLock()
	if err != nil {
		t.Fatal(err)
	}
	defer run.Release()
	want := map[string]fs.FileMode{
		".": 0o700, "sessions": 0o700, "sessions/*": 0o600, "run.lock": 0o600,
		"state.db": 0o600, "state.db-wal": 0o600, "state.db-shm": 0o600,
	}
	if diff := cmp.Diff(want, modes(t, s.Dir())); diff != "" {
		t.Errorf("files and modes (-want +got):\n%s", diff)
	}
}

// modes returns the permissions of everything in dir; names of sessions differ.
func modes(t *testing.T, dir string) map[string]fs.FileMode {
	t.Helper()
	got := make(map[string]fs.FileMode)
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if strings.HasPrefix(path, "sessions/") {
			path = "sessions/*"
		}
		got[path] = info.Mode().Perm()
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// An administrator's command in the service's directory must leave nothing that
// the service cannot use.
func TestRootGivesItsFilesToTheDirectorysOwner(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Log("only root can make files of others: nothing to hold")
		return
	}
	const uid, gid = 12345, 23456
	for mode, want := range map[fs.FileMode]fs.FileMode{0o700: 0o600, 0o770: 0o660} {
		dir := t.TempDir()
		if err := errors.Join(os.Chmod(dir, mode), os.Chown(dir, uid, gid)); err != nil {
			t.Fatal(err)
		}
		if got := RunAs(dir); got != "'#12345'" {
			t.Errorf("got %q as whom to run, want the directory's owner", got)
		}
		s := NewStore(dir)
		claim := acquire(t, s.AcquireLock)
		save(t, s, NewRecord(identity, fingerprint))
		run, err := s.AcquireRunLock()
		if err != nil {
			t.Fatal(err)
		}
		err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := entry.Info()
			if err != nil {
				return err
			}
			if u, g := ownerOf(info); u != uid || g != gid {
				t.Errorf("%s belongs to %d:%d, want %d:%d", path, u, g, uid, gid)
			}
			if !entry.IsDir() && info.Mode().Perm() != want {
				t.Errorf("%s in a directory of mode %o has mode %o, want %o", path, mode, info.Mode().Perm(), want)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		run.Release()
		claim.Release()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestAnotherUserIsToldAsWhomToRun(t *testing.T) {
	t.Parallel()
	s := openStore(t)
	inPhase(t, s, Complete)
	before := modes(t, s.Dir())
	if os.Geteuid() != 0 { // root becomes another user, which 0700 stops
		t.Log("only root can become another user: nothing to hold")
		return
	}
	if err := os.Chmod(filepath.Dir(s.Dir()), 0o755); err != nil { // of t.TempDir, above the state
		t.Fatal(err)
	}
	c := startChild(t, "other", s.Dir())
	for _, call := range []string{"load", "check", "save", "claim", "run"} {
		got := c.line()
		if !strings.HasPrefix(got, call+": the state cannot be used: ") || !strings.Contains(got, "runuser -u root -- provision") {
			t.Errorf("got %q, want %s refused and as whom to run", got, call)
		}
	}
	if diff := cmp.Diff(before, modes(t, s.Dir())); diff != "" {
		t.Errorf("files changed (-before +after):\n%s", diff)
	}
}

// What the machine is to blame for is said so and blames no record.
func TestCausesOfTheMachineAreNotDamage(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		role []string
		want string
	}{
		{"no free descriptor", []string{"files", "9"}, "too many open files; raise the limit"},
		{"a disk without room", []string{"small", "4096"}, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := openStore(t)
			before := inPhase(t, s, Complete)
			c := startChild(t, test.role[0], s.Dir(), test.role[1])
			failed := false
			for range 5 { // as many calls as tryAll makes
				got := c.line()
				if strings.Contains(got, "provision reset") || strings.Contains(got, ErrDamaged.Error()) || strings.Contains(got, ErrUnusable.Error()) {
					t.Errorf("got %q, want neither a record nor the database blamed", got)
				}
				if strings.Contains(got, ErrUnavailable.Error()) {
					failed = true
					if !strings.Contains(got, test.want) {
						t.Errorf("got %q, want %q in it", got, test.want)
					}
				}
			}
			if !failed {
				t.Error("no call failed, want one that does")
			}
			if got := load(t, s); got != before {
				t.Errorf("got %+v, want the record as it was", got)
			}
		})
	}
}

func TestDatabaseThatIsNotOursIsKeptAndNamed(t *testing.T) {
	t.Parallel()
	whole := readDatabase(t)
	header := append([]byte{}, whole...)
	copy(header[68:72], "ABCD") // the application id
	newer := append([]byte{}, whole...)
	newer[63] = 99 // the user version
	torn := append([]byte{}, whole...)
	copy(torn[4096:], make([]byte, len(torn)-4096))
	tests := map[string]struct {
		content []byte
		detail  string
	}{
		"empty":           {nil, "it is empty"},
		"a text":          {[]byte("state_dir: /somewhere\n"), "not a database"},
		"another program": {header, "another program"},
		"a newer version": {newer, "schema version 99 is unknown"},
		"zeros":           {torn, "malformed"},
		"truncated":       {whole[:5000], "malformed"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			path := filepath.Join(dir, DatabaseFile)
			if err := os.WriteFile(path, test.content, 0o600); err != nil {
				t.Fatal(err)
			}
			s := NewStore(dir)
			_, errLoad := s.Load(identity)
			_, errList := s.List()
			for call, err := range map[string]error{"Load": errLoad, "List": errList, "CheckWritable": s.CheckWritable(), "Save": s.Save(NewRecord(identity, fingerprint))} {
				if !errors.Is(err, ErrDamaged) {
					t.Errorf("%s: got %v, want ErrDamaged", call, err)
					continue
				}
				for _, want := range []string{path, test.detail, "it is kept", "but no node"} {
					if !strings.Contains(err.Error(), want) {
						t.Errorf("%s: got %q, want %q in it", call, err, want)
					}
				}
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			if kept, err := os.ReadFile(path); err != nil || string(kept) != string(test.content) {
				t.Errorf("the file changed (%v), want it kept", err)
			}
		})
	}
}

// readDatabase returns a database with some records, as it lies on the disk.
func readDatabase(t *testing.T) []byte {
	t.Helper()
	s := NewStore(t.TempDir())
	for i := range 50 {
		save(t, s, NewRecord(fmt.Sprintf("n%d", i), fingerprint))
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(s.Dir(), DatabaseFile))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestPlantedFilesAreNotFollowed(t *testing.T) {
	t.Parallel()
	kinds := map[string]func(path, target string) error{
		"a link": func(path, target string) error { return os.Symlink(target, path) },
		"a pipe": func(path, _ string) error { return syscall.Mkfifo(path, 0o600) },
		"a directory": func(path, _ string) error {
			return os.Mkdir(path, 0o700)
		},
	}
	for kind, plant := range kinds {
		for _, name := range []string{DatabaseFile, runLockFile} {
			t.Run(kind+" as "+name, func(t *testing.T) {
				t.Parallel()
				dir, target := t.TempDir(), filepath.Join(t.TempDir(), "target")
				if err := errors.Join(os.WriteFile(target, []byte("precious"), 0o600), plant(filepath.Join(dir, name), target)); err != nil {
					t.Fatal(err)
				}
				s := NewStore(dir)
				defer s.Close()
				lock, err := s.AcquireRunLock()
				if err == nil {
					lock.Release()
					err = s.CheckWritable()
				}
				if !errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrDamaged) {
					t.Errorf("got %v, want it refused", err)
				}
				if text, err := os.ReadFile(target); err != nil || string(text) != "precious" {
					t.Errorf("got %q, %v behind the link, want it untouched", text, err)
				}
			})
		}
	}
}

func TestDirectoryThatEveryUserCanWriteIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := NewStore(dir).CheckWritable(); !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "chmod o-w "+dir) {
		t.Errorf("got %v, want ErrUnavailable and what to do", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("got %v, %v, want nothing created", left, err)
	}
}

// The files as they are at any moment of a busy process have each completion that
// was reported. That a durable commit also outlives a power cut is SQLite's
// guarantee for the settings that TestDurableWritesUseFullSynchronous holds.
func TestCopiesAtRandomMomentsHaveEveryReportedCompletion(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writer := startChild(t, "write", dir, "node")
	var reported []string
	for round := range 12 {
		for range 40 + round*7 {
			line := writer.line()
			if !strings.HasPrefix(line, "node-") {
				t.Fatalf("got %q, want a completion", line)
			}
			reported = append(reported, line)
		}
		wantComplete(t, copyStopped(t, writer, dir), reported)
	}
	writer.kill(t)
	wantComplete(t, dir, reported) // what the kill leaves
}

// copyStopped copies the files while the process stands still: a copy of a
// database and its log from two moments fits together by chance alone.
func copyStopped(t *testing.T, c *child, dir string) string {
	t.Helper()
	if err := c.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Process.Signal(syscall.SIGCONT) }()
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(c.Process.Pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
		t.Fatalf("got status %v, %v, want the process stopped", status, err)
	}
	copied := t.TempDir()
	for _, name := range []string{DatabaseFile, DatabaseFile + "-wal"} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(copied, name), data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return copied
}

func wantComplete(t *testing.T, dir string, identities []string) {
	t.Helper()
	s := NewStore(dir)
	defer s.Close()
	for _, identity := range identities {
		if record, err := s.Load(identity); err != nil || record.Phase != Complete {
			t.Errorf("%s: got %+v, %v, want the completion that was reported", identity, record, err)
			return
		}
	}
}

// The durability of a commit is that of its connection.
func TestDurableWritesUseFullSynchronous(t *testing.T) {
	t.Parallel()
	s := openStore(t)
	if err := s.CheckWritable(); err != nil {
		t.Fatal(err)
	}
	db := s.engine.(*sqlite).db
	for name, want := range map[*writer]int{db.durable: 2, db.quick: 1} {
		var got int
		var mode string
		err := errors.Join(
			name.conn.QueryRowContext(t.Context(), "PRAGMA synchronous").Scan(&got),
			name.conn.QueryRowContext(t.Context(), "PRAGMA journal_mode").Scan(&mode),
		)
		if err != nil || got != want || mode != "wal" {
			t.Errorf("got synchronous %d, mode %s, %v, want %d in wal", got, mode, err, want)
		}
	}
}

// Completions at the same time share commits, and each is stored.
func TestCompletionsShareCommits(t *testing.T) {
	t.Parallel()
	s := openStore(t)
	var callers sync.WaitGroup
	for i := range 50 {
		callers.Go(func() {
			if err := completeOne(s, fmt.Sprintf("n%d", i)); err != nil {
				t.Error(err)
			}
		})
	}
	callers.Wait()
	entries, err := s.List()
	if err != nil || len(entries) != 50 {
		t.Fatalf("got %d entries, %v, want 50", len(entries), err)
	}
	for _, e := range entries {
		if e.Record.Phase != Complete || e.Locked {
			t.Errorf("got %+v, want it complete and free", e)
		}
	}
}

func TestCloseLeavesNothingRunning(t *testing.T) {
	before := goleak.IgnoreCurrent()
	s := NewStore(t.TempDir())
	acquire(t, s.AcquireLock).Release()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	goleak.VerifyNone(t, before)
	if left, err := os.ReadDir(s.Dir()); err != nil || len(left) != 2 {
		t.Errorf("got %v, %v, want the database and the directory of sessions alone", left, err)
	}
	if err := s.CheckWritable(); !errors.Is(err, ErrUnavailable) {
		t.Errorf("got %v after Close, want ErrUnavailable", err)
	}
}

// The log of a database that was moved away alone would be played into a new one,
// which a change reported as done and a damaged database came of.
func TestNoDatabaseIsMadeBesideTheLogOfAnother(t *testing.T) {
	t.Parallel()
	for _, suffix := range []string{"-wal", "-journal"} {
		t.Run(suffix, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			log := filepath.Join(dir, DatabaseFile+suffix)
			if err := os.WriteFile(log, []byte("of another"), 0o600); err != nil {
				t.Fatal(err)
			}
			s := NewStore(dir)
			defer s.Close()
			_, errList := s.List()
			for call, err := range map[string]error{"List": errList, "SetPause": s.SetPause(Pause{Since: time.Now()})} {
				if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), log) {
					t.Errorf("%s: got %v, want the log named", call, err)
				}
			}
			if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
				t.Errorf("got %v, %v, want the log alone", left, err)
			}
		})
	}
}

// A process that went on with a database that was moved away or removed would
// report what no other process sees, and work on nodes that others take for free.
func TestDatabaseThatWasMovedAwayIsUsedNoMore(t *testing.T) {
	t.Parallel()
	moves := map[string]func(path string) error{
		"moved":   func(path string) error { return os.Rename(path, path+".old") },
		"removed": os.Remove,
		"its directory removed": func(path string) error {
			return os.RemoveAll(filepath.Dir(path))
		},
		"replaced": func(path string) error {
			data, err := os.ReadFile(path)
			return errors.Join(err, os.Rename(path, path+".old"), os.WriteFile(path, data, 0o600))
		},
	}
	for name, move := range moves {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := NewStore(filepath.Join(t.TempDir(), "state"))
			defer s.Close()
			record := inPhase(t, s, Installing)
			path := filepath.Join(s.Dir(), DatabaseFile)
			if err := move(path); err != nil {
				t.Fatal(err)
			}
			_, errLoad := s.Load("another")
			for call, err := range map[string]error{"Load": errLoad, "MarkComplete": s.MarkComplete(record)} {
				if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), path+" was moved away or replaced") {
					t.Errorf("%s: got %v, want ErrUnavailable that says so", call, err)
				}
			}
		})
	}
}
