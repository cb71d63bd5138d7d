package installstate

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestCrashAtEachTouchOfTheDisk kills a process before and after each thing it
// does to the disk. What is left must be the record from before or the one
// after, whole, and the next process must be able to go on.
func TestCrashAtEachTouchOfTheDisk(t *testing.T) {
	t.Parallel()
	tests := []struct {
		action        string
		before, after Phase
	}{
		{"save", "", Installing},
		{"complete", Installing, Complete},
		{"reset", Complete, Resetting},
		{"remove", Resetting, ""},
	}
	for _, test := range tests {
		for _, side := range []string{"before", "after"} {
			for _, run := range []string{"", " in a run"} {
				t.Run(test.action+" "+side+run, func(t *testing.T) {
					t.Parallel()
					kills := 0
					for crashed := true; crashed; kills++ {
						crashed = crashOnce(t, test.action, side, run, kills+1, test.before, test.after)
					}
					if kills < 4 {
						t.Errorf("got %d runs, want several touches of the disk", kills)
					}
				})
			}
		}
	}
}

// crashOnce is false when the child came through without being killed.
func crashOnce(t *testing.T, action, side, run string, touch int, before, after Phase) bool {
	t.Helper()
	s := NewStore(t.TempDir())
	inPhase(t, s, before)
	c := startChild(t, "crash", s.Dir(), action, strconv.Itoa(touch), side, run)
	said := c.line()
	_ = c.Wait()

	record, err := s.Load(machine)
	if err != nil && !errors.Is(err, ErrNotFound) {
		t.Fatalf("touch %d: got %v, want a whole record or none", touch, err)
	}
	if got := record.Phase; got != after && (said == "done" || got != before) {
		t.Errorf("touch %d, child said %q: got phase %q, want %q or %q", touch, said, got, before, after)
	}
	lock := acquire(t, s.AcquireLock)
	if record.Phase != after {
		if err := actions[action](s); err != nil {
			t.Errorf("touch %d: got %v, want the next process to do it", touch, err)
		}
	}
	lock.Release()
	return said != "done"
}

func TestHalfWrittenFilesOfTheKilledAreTidiedUp(t *testing.T) {
	t.Parallel()
	s := NewStore(t.TempDir())
	save(t, s, NewRecord(machine, fingerprint))
	half := s.nodeDir(machine) + "/.record.json8472917"
	if err := os.WriteFile(half, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	acquire(t, s.AcquireLock).Release()
	entries, err := os.ReadDir(s.nodeDir(machine))
	if err != nil || len(entries) != 2 {
		t.Errorf("got %v, %v, want record and lock only", entries, err)
	}
	load(t, s)
}

func TestDiskThatFills(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, limit, check, save string }{
		{"nothing fits", "10", "check: " + ErrUnwritable.Error(), "save: " + ErrUnwritable.Error()},
		{"one record fits", "4096", "check: " + ErrUnwritable.Error(), "save: <nil>"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := NewStore(t.TempDir())
			before := inPhase(t, s, Complete)
			c := startChild(t, "unlucky", s.Dir(), test.limit)
			for _, want := range []string{test.check, test.save, "lock: <nil>"} {
				if got := c.line(); !strings.HasPrefix(got, want) {
					t.Errorf("got %q, want %q", got, want)
				}
			}
			if got := load(t, s); got != before {
				t.Errorf("got %+v, want the other record as it was", got)
			}
			if _, err := s.Load("new"); err != nil && !errors.Is(err, ErrNotFound) {
				t.Errorf("got %v, want no half record", err)
			}
			for _, pattern := range []string{".*", "*/.*"} {
				if left, err := filepath.Glob(filepath.Join(s.nodesDir(), pattern)); err != nil || left != nil {
					t.Errorf("got %v, %v left over, want no half-written file", left, err)
				}
			}
		})
	}
}

func TestDirectoryOfAnotherUser(t *testing.T) {
	t.Parallel()
	s := NewStore(t.TempDir())
	inPhase(t, s, Complete)
	if os.Geteuid() != 0 { // root becomes another user instead, who is stopped by 0700
		if err := os.Chmod(s.nodesDir(), 0o500); err != nil {
			t.Fatal(err)
		}
	}
	c := startChild(t, "powerless", s.Dir())
	for _, want := range []string{"check: ", "save: ", "lock: "} {
		if got := c.line(); !strings.HasPrefix(got, want) || !strings.Contains(got, "permission denied") {
			t.Errorf("got %q, want %spermission denied", got, want)
		}
	}
}
