package installstate

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestNoRecordIsNotFound(t *testing.T) {
	t.Parallel()
	s := NewStore(filepath.Join(t.TempDir(), "none"))
	if _, err := s.Load(machine); !errors.Is(err, ErrNotFound) {
		t.Errorf("Load: got %v, want ErrNotFound", err)
	}
	if err := s.MarkComplete(NewRecord(machine, fingerprint)); !errors.Is(err, ErrNotFound) {
		t.Errorf("MarkComplete: got %v, want ErrNotFound", err)
	}
	if err := s.BeginReset(machine); !errors.Is(err, ErrNotFound) {
		t.Errorf("BeginReset: got %v, want ErrNotFound", err)
	}
	if err := s.Remove(machine); !errors.Is(err, ErrNotFound) {
		t.Errorf("Remove: got %v, want ErrNotFound", err)
	}
	if _, err := os.Stat(s.Dir()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want that looking makes no directory", err)
	}
}

func TestSaveKeepsFilesPrivate(t *testing.T) {
	t.Parallel()
	s := NewStore(filepath.Join(t.TempDir(), "state"))
	lock, err := s.AcquireLock(machine)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Release()
	save(t, s, NewRecord(machine, fingerprint))
	want := map[string]fs.FileMode{
		".": 0o700, "nodes": 0o700, "nodes/" + machine: 0o700,
		"nodes/" + machine + "/record.json": 0o600, "nodes/" + machine + "/lock": 0o600,
	}
	got := make(map[string]fs.FileMode)
	err = fs.WalkDir(os.DirFS(s.Dir()), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		got[path] = info.Mode().Perm()
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("files and modes (-want +got):\n%s", diff)
	}
}

func TestOnlyMarkCompleteCompletes(t *testing.T) {
	t.Parallel()
	s := NewStore(t.TempDir())
	record := NewRecord(machine, fingerprint)
	save(t, s, record)
	record.Phase, record.Completed = Complete, record.Created
	if err := s.Save(record); err == nil {
		t.Error("got a complete record saved, want an error")
	}
	if got := load(t, s).Phase; got != Installing {
		t.Errorf("got %s, want installing", got)
	}
	if err := s.MarkComplete(record); err != nil {
		t.Fatal(err)
	}
	if got := load(t, s).Phase; got != Complete {
		t.Errorf("got %s, want complete", got)
	}
}

func TestStoredRecordIsNotLostToAMistake(t *testing.T) {
	t.Parallel()
	stored := NewRecord(machine, fingerprint)
	again := stored
	tests := []struct {
		name  string
		phase Phase
		do    func(*Store) error
		want  error
	}{
		{"another installation", Installing, func(s *Store) error { return s.Save(NewRecord(machine, fingerprint)) }, ErrOtherInstallation},
		{"completing another", Installing, func(s *Store) error { return s.MarkComplete(NewRecord(machine, fingerprint)) }, ErrOtherInstallation},
		{"going on in mid-reset", Resetting, func(s *Store) error { return s.Save(again) }, ErrResetting},
		{"completing in mid-reset", Resetting, func(s *Store) error { return s.MarkComplete(again) }, ErrResetting},
		{"going on after the end", Complete, func(s *Store) error { return s.Save(again) }, ErrOtherInstallation},
		{"a successor", Complete, func(s *Store) error { return s.Save(stored.Successor()) }, nil},
		{"the same", Installing, func(s *Store) error { return s.Save(again) }, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := NewStore(t.TempDir())
			save(t, s, stored)
			switch test.phase {
			case Complete:
				if err := s.MarkComplete(stored); err != nil {
					t.Fatal(err)
				}
			case Resetting:
				if err := s.BeginReset(machine); err != nil {
					t.Fatal(err)
				}
			}
			if err := test.do(s); !errors.Is(err, test.want) || (err == nil) != (test.want == nil) {
				t.Errorf("got %v, want %v", err, test.want)
			}
			if got := load(t, s).Phase; test.want != nil && got != test.phase {
				t.Errorf("got %s afterwards, want %s", got, test.phase)
			}
		})
	}
}

func TestUnusableRecordIsRefusedAndKept(t *testing.T) {
	t.Parallel()
	for name, data := range fixtures(t, "testdata/records/bad/*.json") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := NewStore(t.TempDir())
			plant(t, s, data)
			_, disposition, err := Admit(s, machine, fingerprint)
			if !errors.Is(err, ErrUnusable) || disposition != 0 {
				t.Errorf("Admit: got %s, %v, want ErrUnusable", disposition, err)
			}
			for _, want := range []string{s.RecordPath(machine), "provision reset " + machine} {
				if err != nil && !strings.Contains(err.Error(), want) {
					t.Errorf("got %q, want it to name %s", err, want)
				}
			}
			for name, err := range map[string]error{
				"Save": s.Save(NewRecord(machine, fingerprint)), "MarkComplete": s.MarkComplete(NewRecord(machine, fingerprint)),
			} {
				if !errors.Is(err, ErrUnusable) {
					t.Errorf("%s: got %v, want ErrUnusable", name, err)
				}
			}
			if err := s.BeginReset(machine); err != nil {
				t.Errorf("BeginReset: got %v, want none", err)
			}
			kept, err := os.ReadFile(s.RecordPath(machine))
			if err != nil || string(kept) != string(data) {
				t.Errorf("got %q, %v, want the file as it was", kept, err)
			}
			if err := s.Remove(machine); err != nil {
				t.Errorf("Remove: got %v, want the way out", err)
			}
		})
	}
}

func TestRecordThatIsNoFileIsUnusable(t *testing.T) {
	t.Parallel()
	s := NewStore(t.TempDir())
	if err := os.MkdirAll(s.RecordPath(machine), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Load(machine); !errors.Is(err, ErrUnusable) {
		t.Errorf("got %v, want ErrUnusable", err)
	}
}

func TestMachineNameThatJSONCannotHoldIsRefused(t *testing.T) {
	t.Parallel()
	s := NewStore(t.TempDir())
	if err := s.Save(NewRecord("a\xff", fingerprint)); err == nil {
		t.Error("got it saved, want an error: it would never load again")
	}
}

func TestRemovalThatCannotBeFlushedPutsTheRecordBack(t *testing.T) {
	t.Parallel()
	s := NewStore(t.TempDir())
	save(t, s, NewRecord(machine, fingerprint))
	if err := s.BeginReset(machine); err != nil {
		t.Fatal(err)
	}
	before := load(t, s)
	real := s.disk
	s.disk.syncDir = func(string) error { return syscall.EIO }
	if err := s.Remove(machine); !errors.Is(err, ErrUnwritable) || !errors.Is(err, syscall.EIO) {
		t.Errorf("got %v, want ErrUnwritable with its cause", err)
	}
	if diff := cmp.Diff(before, load(t, s)); diff != "" {
		t.Errorf("the record changed (-before +after):\n%s", diff)
	}
	s.disk = real
	if err := s.Remove(machine); err != nil {
		t.Errorf("got %v, want it gone when the disk is well again", err)
	}
}

func TestRemovalThatFailsKeepsTheRecord(t *testing.T) {
	t.Parallel()
	s := NewStore(t.TempDir())
	save(t, s, NewRecord(machine, fingerprint))
	s.disk.rename = func(string, string) error { return syscall.EROFS }
	if err := s.Remove(machine); !errors.Is(err, ErrUnwritable) {
		t.Errorf("got %v, want ErrUnwritable", err)
	}
	load(t, s)
}

func TestWriteThatCannotBeFlushedShowsNothing(t *testing.T) {
	t.Parallel()
	s := NewStore(t.TempDir())
	real := s.disk
	fail := func(string) error { return syscall.EIO }

	save(t, s, NewRecord("other", fingerprint)) // the directories are there
	if err := os.Mkdir(s.nodeDir(machine), 0o700); err != nil {
		t.Fatal(err)
	}
	record := NewRecord(machine, fingerprint)
	s.disk.syncDir = fail
	if err := s.Save(record); !errors.Is(err, ErrUnwritable) {
		t.Errorf("Save: got %v, want ErrUnwritable", err)
	}
	if _, err := s.Load(machine); !errors.Is(err, ErrNotFound) {
		t.Errorf("got %v, want no record", err)
	}

	s.disk = real
	save(t, s, record)
	s.disk.syncDir = fail
	if err := s.MarkComplete(record); !errors.Is(err, ErrUnwritable) {
		t.Errorf("MarkComplete: got %v, want ErrUnwritable", err)
	}
	if got := load(t, s).Phase; got != Installing {
		t.Errorf("got %s, want installing", got)
	}
}

func TestFullDiskIsFoundBeforeAnyWork(t *testing.T) {
	t.Parallel()
	s := NewStore(t.TempDir())
	if err := s.CheckWritable(); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(s.nodesDir())
	if err != nil || len(left) != 0 {
		t.Errorf("got %v, %v, want nothing left behind", left, err)
	}
	s.disk.replace = func(path string, _ []byte) error { return &fs.PathError{Op: "write", Path: path, Err: syscall.ENOSPC} }
	if err := s.CheckWritable(); !errors.Is(err, ErrUnwritable) || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("got %v, want ErrUnwritable with its cause", err)
	}
}

func TestStateDirectoryThatIsAFileIsFound(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "state")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := NewStore(path).CheckWritable(); !errors.Is(err, ErrUnwritable) {
		t.Errorf("got %v, want ErrUnwritable", err)
	}
}
