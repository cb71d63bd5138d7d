package installstate

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestRestartAskedListsWhatWasCutOffThere(t *testing.T) {
	t.Parallel()
	s := NewStore(t.TempDir())
	if got, err := s.RestartAsked(); got != nil || err != nil {
		t.Errorf("got %v, %v without a directory, want nothing", got, err)
	}
	long := "asked-" + strings.Repeat("x", 300)
	for _, name := range []string{"asked", long, "installing", "complete", "resetting", "broken"} {
		r := NewRecord(name, fingerprint)
		save(t, s, r)
		if name != "installing" {
			note(t, s, r)
		}
	}
	complete := loadOf(t, s, "complete")
	if err := s.MarkComplete(complete); err != nil {
		t.Fatal(err)
	}
	if err := s.BeginReset("resetting"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.RecordPath("broken"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := s.RestartAsked()
	if diff := cmp.Diff([]string{long, "asked"}, got, inAnyOrder); err != nil || diff != "" {
		t.Errorf("%v, machines (-want +got):\n%s", err, diff)
	}
	if after := loadOf(t, s, "complete"); !after.RestartAsked.IsZero() {
		t.Errorf("got %+v, want completion to take the mark away", after)
	}
}

// note leaves a note as a process does that could not complete the record.
func note(t *testing.T, s *Store, r Record) Record {
	t.Helper()
	lock, err := s.AcquireLock(r.MachineName)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Release()
	r.RestartAsked = time.Now().UTC().Round(0)
	r.HoldUntil = r.RestartAsked.Add(time.Minute)
	if err := lock.NoteRestart(r); err != nil {
		t.Fatal(err)
	}
	return r
}

// inAnyOrder compares names as sets.
var inAnyOrder = cmp.Transformer("set", func(names []string) map[string]bool {
	set := map[string]bool{}
	for _, name := range names {
		set[name] = true
	}
	return set
})

func loadOf(t *testing.T, s *Store, name string) Record {
	t.Helper()
	r, err := s.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	return r
}
