package installstate

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestNoRecordIsNotFound(t *testing.T) {
	t.Parallel()
	s := NewStore(filepath.Join(t.TempDir(), "none"))
	defer s.Close()
	if _, err := s.Load(identity); !errors.Is(err, ErrNotFound) {
		t.Errorf("Load: got %v, want ErrNotFound", err)
	}
	if err := s.BeginReset(identity); !errors.Is(err, ErrNotFound) {
		t.Errorf("BeginReset: got %v, want ErrNotFound", err)
	}
	if err := s.Remove(identity); !errors.Is(err, ErrNotFound) {
		t.Errorf("Remove: got %v, want ErrNotFound", err)
	}
	if entries, err := s.List(); len(entries) != 0 || err != nil {
		t.Errorf("List: got %v, %v, want nothing", entries, err)
	}
	if p, err := s.Pause(); p != nil || err != nil {
		t.Errorf("Pause: got %v, %v, want none", p, err)
	}
	if _, err := os.Stat(s.Dir()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want that reading creates no directory", err)
	}
	if err := s.MarkComplete(NewRecord(identity, fingerprint)); !errors.Is(err, ErrNotFound) {
		t.Errorf("MarkComplete: got %v, want ErrNotFound for an installation that was never begun", err)
	}
}

func TestOnlyMarkCompleteCompletes(t *testing.T) {
	t.Parallel()
	s := openStore(t)
	record := NewRecord(identity, fingerprint)
	save(t, s, record)
	record.Phase, record.Completed = Complete, record.Created
	if err := s.Save(record); err == nil {
		t.Error("got a complete record saved, want an error")
	}
	if got := load(t, s).Phase; got != Installing {
		t.Errorf("got %s, want installing", got)
	}
	record.RestartRequested, record.ShutDown = time.Now(), time.Now()
	if err := s.MarkComplete(record); err != nil {
		t.Fatal(err)
	}
	if got := load(t, s); got.Phase != Complete || !got.RestartRequested.IsZero() || !got.ShutDown.IsZero() {
		t.Errorf("got %+v, want complete, with neither a restart nor a shutdown to wait for", got)
	}
}

func TestRemovedRecordCannotBeCompleted(t *testing.T) {
	t.Parallel()
	s := openStore(t)
	claim := acquire(t, s.AcquireLock)
	defer claim.Release()
	record := NewRecord(identity, fingerprint)
	save(t, s, record)
	if err := s.Remove(identity); err != nil {
		t.Fatal(err)
	}
	if err := s.MarkComplete(record); !errors.Is(err, ErrNotFound) {
		t.Errorf("got %v under the same claim, want ErrNotFound", err)
	}
}

func TestStoredRecordIsNotLostToAMistake(t *testing.T) {
	t.Parallel()
	stored := NewRecord(identity, fingerprint)
	again := stored
	tests := []struct {
		name  string
		phase Phase
		do    func(*Store) error
		want  error
	}{
		{"another installation", Installing, func(s *Store) error { return s.Save(NewRecord(identity, fingerprint)) }, ErrOtherInstallation},
		{"completing another", Installing, func(s *Store) error { return s.MarkComplete(NewRecord(identity, fingerprint)) }, ErrOtherInstallation},
		{"going on in mid-reset", Resetting, func(s *Store) error { return s.Save(again) }, ErrResetting},
		{"completing in mid-reset", Resetting, func(s *Store) error { return s.MarkComplete(again) }, ErrResetting},
		{"going on after the end", Complete, func(s *Store) error { return s.Save(again) }, ErrOtherInstallation},
		{"a successor", Complete, func(s *Store) error { return s.Save(stored.Successor()) }, nil},
		{"the same", Installing, func(s *Store) error { return s.Save(again) }, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := openStore(t)
			save(t, s, stored)
			switch test.phase {
			case Complete:
				if err := s.MarkComplete(stored); err != nil {
					t.Fatal(err)
				}
			case Resetting:
				if err := s.BeginReset(identity); err != nil {
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
			s := openStore(t)
			plant(t, s, data)
			_, disposition, err := Admit(s, identity, fingerprint)
			if !errors.Is(err, ErrUnusable) || disposition != 0 || !strings.Contains(fmt.Sprint(err), "provision reset "+identity) {
				t.Errorf("Admit: got %s, %v, want ErrUnusable and the command that frees the node", disposition, err)
			}
			for name, err := range map[string]error{
				"Save": s.Save(NewRecord(identity, fingerprint)), "MarkComplete": s.MarkComplete(NewRecord(identity, fingerprint)),
			} {
				if !errors.Is(err, ErrUnusable) {
					t.Errorf("%s: got %v, want ErrUnusable", name, err)
				}
			}
			if err := s.BeginReset(identity); err != nil {
				t.Errorf("BeginReset: got %v, want none", err)
			}
			kept, err := s.engine.read(identity)
			if err != nil || string(kept.record) != string(data) {
				t.Errorf("got %q, %v, want the record as it was", kept.record, err)
			}
			if _, _, err := Admit(s, "another", fingerprint); err != nil {
				t.Errorf("got %v for another node, want it admitted", err)
			}
			if err := s.Remove(identity); err != nil {
				t.Errorf("Remove: got %v, want the way out", err)
			}
		})
	}
}

func TestIdentityThatJSONCannotHoldIsRefused(t *testing.T) {
	t.Parallel()
	s := openStore(t)
	if err := s.Save(NewRecord("a\xff", fingerprint)); err == nil {
		t.Error("got it saved, want an error: it would never load again")
	}
}

func TestList(t *testing.T) {
	t.Parallel()
	s := openStore(t)
	save(t, s, NewRecord("b", fingerprint))
	save(t, s, NewRecord("a", fingerprint))
	plant(t, s, []byte("{"))
	claim, err := s.AcquireLock("claimed only")
	if err != nil {
		t.Fatal(err)
	}
	defer claim.Release()
	entries, err := s.List()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, fmt.Sprintf("%s record=%v unusable=%v locked=%v", e.Identity, e.HasRecord(), errors.Is(e.Err, ErrUnusable), e.Locked))
		if e.Locked && e.Holder.PID != os.Getpid() {
			t.Errorf("got holder %+v, want this process", e.Holder)
		}
	}
	want := []string{
		"a record=true unusable=false locked=false", "b record=true unusable=false locked=false",
		"claimed only record=false unusable=false locked=true", identity + " record=true unusable=true locked=false",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
}

func TestRestartRequestedListsThoseAlone(t *testing.T) {
	t.Parallel()
	s := openStore(t)
	for _, name := range []string{"requested", "not requested", "complete", "in reset"} {
		record := NewRecord(name, fingerprint)
		if name != "not requested" {
			record.RestartRequested = time.Now().UTC()
		}
		save(t, s, record)
		if name == "complete" {
			if err := s.MarkComplete(record); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := s.BeginReset("in reset"); err != nil {
		t.Fatal(err)
	}
	plant(t, s, []byte("{"))
	got, err := s.RestartRequested()
	if err != nil || !slices.Equal(got, []string{"requested"}) {
		t.Errorf("got %q, %v, want the one whose restart was requested", got, err)
	}
}
