package installstate

import (
	"errors"
	"os"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestAdmit(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name        string
		phase       Phase
		fingerprint string
		want        Disposition
		err         error
	}{
		{"nothing", "", fingerprint, Fresh, nil},
		{"ours under way", Installing, fingerprint, Resume, nil},
		{"ours complete", Complete, fingerprint, AlreadyComplete, nil},
		{"ours in mid-reset", Resetting, fingerprint, 0, ErrResetting},
		{"another under way", Installing, "", 0, ErrOtherInstallation},
		{"another complete", Complete, "", 0, ErrOtherInstallation},
		{"another in mid-reset", Resetting, "", 0, ErrResetting},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := openStore(t)
			stored := inPhase(t, s, test.phase)
			record, got, err := Admit(s, identity, test.fingerprint)
			if got != test.want || !errors.Is(err, test.err) || (err == nil) != (test.err == nil) {
				t.Errorf("got %s, %v, want %s, %v", got, err, test.want, test.err)
			}
			if record != stored {
				t.Errorf("got %+v, want the record %+v", record, stored)
			}
			if err != nil && !strings.Contains(err.Error(), "provision reset "+identity) {
				t.Errorf("got %q, want the command that helps", err)
			}
		})
	}
}

// inPhase brings the identity's record to phase by the ordinary calls; empty
// means that there is none.
func inPhase(t interface {
	Helper()
	Fatal(...any)
}, s *Store, phase Phase) Record {
	t.Helper()
	if phase == "" {
		return Record{}
	}
	record := NewRecord(identity, fingerprint)
	err := s.Save(record)
	switch {
	case err != nil:
	case phase == Complete:
		err = s.MarkComplete(record)
	case phase == Resetting:
		err = s.BeginReset(identity)
	}
	if err == nil {
		record, err = s.Load(identity)
	}
	if err != nil {
		t.Fatal(err)
	}
	return record
}

// TestAnyHistoryIsAdmittedByItsEnd plays calls in any order and holds Admit
// against a model of what the last one that worked left behind.
func TestAnyHistoryIsAdmittedByItsEnd(t *testing.T) {
	t.Parallel()
	other := Fingerprint([]byte("another"))
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp("", "admit")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		s := NewStore(dir)
		defer s.Close()
		var stored Record // the model: zero is none
		for range rapid.IntRange(0, 8).Draw(t, "calls") {
			switch rapid.SampledFrom([]string{"save", "succeed", "complete", "reset", "remove"}).Draw(t, "call") {
			case "save":
				record := NewRecord(identity, rapid.SampledFrom([]string{fingerprint, other}).Draw(t, "fingerprint"))
				want := stored == Record{}
				if err := s.Save(record); (err == nil) != want {
					t.Fatalf("Save over %q: got %v, want success %v", stored.Phase, err, want)
				}
				if want {
					stored = record
				}
			case "succeed":
				next := stored.Successor()
				want := stored.Phase == Complete || stored.Phase == Installing
				if err := s.Save(next); (err == nil) != want {
					t.Fatalf("Save of a successor over %q: got %v, want success %v", stored.Phase, err, want)
				}
				if want {
					stored = next
				}
			case "complete":
				want := stored.Phase == Complete || stored.Phase == Installing
				if err := s.MarkComplete(stored); (err == nil) != want {
					t.Fatalf("MarkComplete over %q: got %v, want success %v", stored.Phase, err, want)
				}
				if want {
					stored.Phase = Complete
				}
			case "reset":
				if err := s.BeginReset(identity); (err == nil) != (stored != Record{}) {
					t.Fatalf("BeginReset over %q: got %v", stored.Phase, err)
				}
				if stored != (Record{}) {
					stored.Phase = Resetting
				}
			case "remove":
				if err := s.Remove(identity); (err == nil) != (stored != Record{}) {
					t.Fatalf("Remove over %q: got %v", stored.Phase, err)
				}
				stored = Record{}
			}
		}
		checkAdmitted(t, s, stored)
	})
}

func checkAdmitted(t *rapid.T, s *Store, stored Record) {
	record, got, err := Admit(s, identity, fingerprint)
	want, refusal := map[Phase]Disposition{"": Fresh, Installing: Resume, Complete: AlreadyComplete}[stored.Phase], error(nil)
	switch {
	case stored.Phase == Resetting:
		refusal = ErrResetting
	case stored != (Record{}) && stored.Fingerprint != fingerprint:
		want, refusal = 0, ErrOtherInstallation
	}
	if got != want || !errors.Is(err, refusal) || record.InstallationID != stored.InstallationID {
		t.Fatalf("got %s, %s, %v after %+v, want %s, %v", record.InstallationID, got, err, stored, want, refusal)
	}
}
