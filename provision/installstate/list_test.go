package installstate

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestListShowsRecordsErrorsAndHolders(t *testing.T) {
	t.Parallel()
	s := NewStore(filepath.Join(t.TempDir(), "state"))
	if entries, err := s.List(); err != nil || len(entries) != 0 {
		t.Errorf("got %v, %v, want nothing before the first record", entries, err)
	}
	long := strings.Repeat("Long.", 80)
	for _, name := range []string{"a", "B/..", long} {
		save(t, s, NewRecord(name, fingerprint))
	}
	plant(t, s, []byte("{"))
	lost := filepath.Join(s.nodesDir(), escape(strings.Repeat("Lost.", 80)))
	for _, dir := range []string{lost, filepath.Join(s.nodesDir(), "Foreign")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, recordFile), []byte("{}"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	lock, err := s.AcquireLock("busy")
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Release()

	entries, err := s.List()
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]Entry)
	for _, entry := range entries {
		got[entry.Machine] = entry
	}
	if len(entries) != 6 || len(got) != 6 {
		t.Fatalf("got %d entries, want 6: %+v", len(entries), entries)
	}
	for _, name := range []string{"a", "B/..", long} {
		if e := got[name]; e.Err != nil || !e.HasRecord() || e.Record.MachineName != name || e.Locked || e.File != s.RecordPath(name) {
			t.Errorf("%s: got %+v, want its record", name, e)
		}
	}
	for _, name := range []string{machine, ""} {
		if e := got[name]; !errors.Is(e.Err, ErrUnusable) || !e.HasRecord() {
			t.Errorf("%q: got %+v, want ErrUnusable", name, e)
		}
	}
	if e := got["busy"]; e.HasRecord() || !e.Locked || e.Holder.PID != os.Getpid() {
		t.Errorf("busy: got %+v, want a lock of ours and no record", e)
	}
}
