package installstate

import (
	"errors"
	"testing"
)

// An installation that was reset while its node was worked on must not come back
// as complete, whichever engine keeps the record.
func TestARemovedInstallationCannotBeCompletedUnderItsLock(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, on site) {
		s, other := on.open(), on.open()
		lock := claim(t, s, "web1")
		defer lock.Release()
		record := NewRecord("web1", fingerprint)
		if err := s.Save(record); err != nil {
			t.Fatal(err)
		}
		if err := s.Remove("web1"); err != nil {
			t.Fatal(err)
		}
		if err := s.MarkComplete(record); !errors.Is(err, ErrNotFound) {
			t.Errorf("completing it: got %v, want %v", err, ErrNotFound)
		}
		if err := s.Remove("web1"); !errors.Is(err, ErrNotFound) {
			t.Errorf("removing it again: got %v, want %v", err, ErrNotFound)
		}
		for name, store := range map[string]*Store{"this process": s, "another one": other} {
			if got, err := store.Load("web1"); !errors.Is(err, ErrNotFound) {
				t.Errorf("%s: got %+v, %v, want no record", name, got, err)
			}
		}
		if _, err := other.AcquireLock("web1"); !errors.Is(err, ErrLockHeld) {
			t.Errorf("got %v, want the node still claimed", err)
		}
		again := NewRecord("web1", fingerprint) // the same process may begin anew
		if err := s.Save(again); err != nil {
			t.Fatal(err)
		}
		if err := s.MarkComplete(again); err != nil {
			t.Errorf("completing the next installation: %v", err)
		}
		if got, err := other.Load("web1"); err != nil || got.Phase != Complete || got.InstallationID != again.InstallationID {
			t.Errorf("got %+v, %v, want the next installation complete", got, err)
		}
	})
}
