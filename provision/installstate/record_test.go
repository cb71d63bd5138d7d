package installstate

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

const machine = "n1.example.net"

var fingerprint = Fingerprint([]byte("ours"))

func fixtures(t *testing.T, pattern string) map[string][]byte {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	if err != nil || len(paths) == 0 {
		t.Fatalf("no fixtures %s: %v", pattern, err)
	}
	all := make(map[string][]byte)
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		all[strings.TrimSuffix(filepath.Base(path), ".json")] = data
	}
	return all
}

// plant puts data where the machine's record is.
func plant(t *testing.T, s *Store, data []byte) {
	t.Helper()
	path := s.RecordPath(machine)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestRecordsWrittenBeforeStayReadable(t *testing.T) {
	t.Parallel()
	for name, data := range fixtures(t, "testdata/records/good/*.json") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			record, err := decode(data)
			if err != nil {
				t.Fatal(err)
			}
			if string(record.Phase) != name {
				t.Errorf("got phase %s, want %s", record.Phase, name)
			}
			again, err := record.encode()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(data), string(again)); diff != "" {
				t.Errorf("the form changed (-before +now):\n%s", diff)
			}
		})
	}
}

func TestSuccessorNamesTheInstallationBefore(t *testing.T) {
	t.Parallel()
	before := NewRecord(machine, fingerprint)
	next := before.Successor()
	if next.PreviousID != before.InstallationID || next.InstallationID == before.InstallationID {
		t.Errorf("got %s after %s, want an id of its own after %s", next.InstallationID, next.PreviousID, before.InstallationID)
	}
	if next.Phase != Installing || next.MachineName != machine || next.Fingerprint != fingerprint {
		t.Errorf("got %+v, want the same machine and fingerprint, installing", next)
	}
}

func TestHoldEndsByItself(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := NewStore(t.TempDir())
		record := NewRecord(machine, fingerprint)
		save(t, s, record)
		record.HoldUntil = time.Now().Add(time.Minute)
		if err := s.MarkComplete(record); err != nil {
			t.Fatal(err)
		}
		stored := load(t, s)
		if !stored.Held(time.Now()) {
			t.Error("got free right after completion, want held")
		}
		if stored.Held(time.Now().Add(-time.Hour)) {
			t.Error("got held when the clock was set back, want free")
		}
		time.Sleep(time.Minute - 1)
		if !stored.Held(time.Now()) {
			t.Error("got free before the minute was over, want held")
		}
		time.Sleep(time.Nanosecond)
		if stored.Held(time.Now()) {
			t.Error("got held after the minute, want free")
		}
	})
}

func TestTimesTellWhatHappened(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := NewStore(t.TempDir())
		start := time.Now()
		record := NewRecord(machine, fingerprint)
		time.Sleep(time.Second)
		save(t, s, record)
		time.Sleep(time.Second)
		if err := s.MarkComplete(load(t, s)); err != nil {
			t.Fatal(err)
		}
		got := load(t, s)
		times := []time.Duration{got.Created.Sub(start), got.Updated.Sub(start), got.Completed.Sub(start)}
		if diff := cmp.Diff([]time.Duration{0, 2 * time.Second, 2 * time.Second}, times); diff != "" {
			t.Errorf("created, updated, completed (-want +got):\n%s", diff)
		}
	})
}

func save(t *testing.T, s *Store, r Record) {
	t.Helper()
	if err := s.Save(r); err != nil {
		t.Fatal(err)
	}
}

func load(t *testing.T, s *Store) Record {
	t.Helper()
	record, err := s.Load(machine)
	if err != nil {
		t.Fatal(err)
	}
	return record
}
