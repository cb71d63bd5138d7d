package installstate

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestNoteIsBesideTheRecordUntilThatIsWritten(t *testing.T) {
	t.Parallel()
	s := NewStore(t.TempDir())
	record := NewRecord(machine, fingerprint)
	save(t, s, record)
	before, err := os.ReadFile(s.RecordPath(machine))
	if err != nil {
		t.Fatal(err)
	}
	want := note(t, s, record)
	want.Updated = want.RestartAsked
	if diff := cmp.Diff(want, load(t, s)); diff != "" {
		t.Errorf("record (-want +got):\n%s", diff)
	}
	if after, err := os.ReadFile(s.RecordPath(machine)); err != nil || string(after) != string(before) {
		t.Errorf("got %s, %v, want the file as it was", after, err)
	}
	acquire(t, s.AcquireLock).Release() // who only looks in leaves it
	if diff := cmp.Diff(want, load(t, s)); diff != "" {
		t.Errorf("record after another holder (-want +got):\n%s", diff)
	}

	lock := acquire(t, s.AcquireLock)
	save(t, s, record) // the next attempt
	if got := load(t, s); !got.RestartAsked.IsZero() || !got.HoldUntil.IsZero() {
		t.Errorf("got %+v at the next attempt, want no note", got)
	}
	lock.Release()
	if got := load(t, s); !got.RestartAsked.IsZero() {
		t.Errorf("got %+v, want it gone for good", got)
	}
}

func TestNoteCanBeTakenBack(t *testing.T) {
	t.Parallel()
	s := NewStore(t.TempDir())
	lock := acquire(t, s.AcquireLock)
	defer lock.Release()
	record := NewRecord(machine, fingerprint)
	save(t, s, record)
	record.RestartAsked = time.Now()
	for _, noted := range []bool{true, false} {
		if !noted {
			record.RestartAsked = time.Time{}
		}
		if err := lock.NoteRestart(record); err != nil {
			t.Fatal(err)
		}
		if got := load(t, s); got.RestartAsked.IsZero() == noted {
			t.Errorf("got %+v, want a note: %v", got, noted)
		}
	}
}

func TestNoteOutlivesAKilledProcess(t *testing.T) {
	t.Parallel()
	s := NewStore(t.TempDir())
	c := startChild(t, "note", s.Dir())
	if line := c.line(); line != "noted" {
		t.Fatalf("got %q, want noted", line)
	}
	c.kill(t)
	if got, err := s.RestartAsked(); len(got) != 1 || err != nil {
		t.Errorf("got %v, %v, want the machine", got, err)
	}
	if holder, locked, err := s.Holder(machine); locked || holder.PID != 0 || err != nil {
		t.Errorf("got %+v, %v, %v, want nobody", holder, locked, err)
	}
}

// A power cut may keep a note that was taken back, or half of one.
func TestNoteThatIsNotTheRecordsOwnDoesNotCount(t *testing.T) {
	t.Parallel()
	tests := map[string]func(s *Store, r Record){
		"of the attempt before": func(s *Store, r Record) {
			note(t, s, r)
			text, err := os.ReadFile(s.lockPath(machine))
			save(t, s, r)
			if err != nil || os.WriteFile(s.lockPath(machine), text, 0o600) != nil {
				t.Fatal(err)
			}
		},
		"of another installation": func(s *Store, r Record) {
			r.InstallationID = "another"
			note(t, s, r)
		},
		"half written": func(s *Store, r Record) {
			note(t, s, r)
			if err := os.Truncate(s.lockPath(machine), 40); err != nil {
				t.Fatal(err)
			}
		},
	}
	for name, leave := range tests {
		t.Run(name, func(t *testing.T) {
			s := NewStore(t.TempDir())
			record := NewRecord(machine, fingerprint)
			save(t, s, record)
			leave(s, record)
			if got := load(t, s); !got.RestartAsked.IsZero() || !got.HoldUntil.IsZero() {
				t.Errorf("got %+v, want no note", got)
			}
			lock := acquire(t, s.AcquireLock)
			defer lock.Release()
			if holder, locked, err := s.Holder(machine); !locked || holder.PID != os.Getpid() || err != nil {
				t.Errorf("got %+v, %v, %v, want us", holder, locked, err)
			}
		})
	}
}

// What is durable already is not flushed again: each flush is waited for.
func TestFlushesOfOneInstallation(t *testing.T) {
	t.Parallel()
	s := NewStore(t.TempDir())
	if err := s.CheckWritable(); err != nil {
		t.Fatal(err)
	}
	var flushed []string
	real := s.disk
	s.disk.syncDir = func(path string) error {
		flushed = append(flushed, filepath.Base(path))
		return real.syncDir(path)
	}
	lock := acquire(t, s.AcquireLock)
	record := NewRecord(machine, fingerprint)
	save(t, s, record)
	if err := s.MarkComplete(record); err != nil {
		t.Fatal(err)
	}
	lock.Release()
	node := filepath.Base(s.nodeDir(machine))
	if diff := cmp.Diff([]string{node, "nodes", node}, flushed); diff != "" {
		t.Errorf("flushed directories (-want +got):\n%s", diff)
	}

	flushed = nil // another process may have died before it flushed the name
	lock = acquire(t, s.AcquireLock)
	defer lock.Release()
	save(t, s, record.Successor())
	if diff := cmp.Diff([]string{node, "nodes"}, flushed); diff != "" {
		t.Errorf("flushed directories of the next (-want +got):\n%s", diff)
	}
}

func TestNameThatCouldNotBeFlushedIsFlushedTheNextTime(t *testing.T) {
	t.Parallel()
	s := NewStore(t.TempDir())
	lock := acquire(t, s.AcquireLock)
	defer lock.Release()
	real := s.disk
	s.disk.syncDir = func(path string) error {
		if path == s.nodesDir() {
			return syscall.EIO
		}
		return real.syncDir(path)
	}
	record := NewRecord(machine, fingerprint)
	for range 2 {
		if err := s.Save(record); !errors.Is(err, syscall.EIO) {
			t.Errorf("got %v, want EIO", err)
		}
	}
	if _, err := s.Load(machine); !errors.Is(err, ErrNotFound) {
		t.Errorf("got %v, want no record", err)
	}
	s.disk = real
	save(t, s, record)
}

func TestGroupSharesRunsThatBeganLater(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var g group[int]
		var runs atomic.Int32
		proceed := make(chan struct{})
		run := func(items []int) error {
			number := runs.Add(1)
			<-proceed
			if number == 2 {
				return syscall.EIO
			}
			return nil
		}
		var first error
		errs := make([]error, 5)
		var callers sync.WaitGroup
		callers.Go(func() { first = g.do(9, run) })
		synctest.Wait() // it runs
		for i := range errs {
			callers.Go(func() { errs[i] = g.do(i, run) })
		}
		synctest.Wait()
		close(proceed)
		callers.Wait()
		if runs.Load() != 2 || first != nil {
			t.Errorf("got %d runs, the first said %v, want one and one for all who came late", runs.Load(), first)
		}
		for _, err := range errs {
			if !errors.Is(err, syscall.EIO) {
				t.Errorf("got %v, want what the second run said", err)
			}
		}
	})
}
