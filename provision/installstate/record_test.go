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

const identity = "n1.example.net"

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

// openStore returns a store in a directory of its own.
func openStore(t *testing.T) *Store {
	t.Helper()
	s := NewStore(t.TempDir())
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// plant stores data, which may be no record at all, as the record of identity.
func plant(t *testing.T, s *Store, data []byte) {
	t.Helper()
	err := s.change(identity, true, func(r row) (row, error) {
		r.record, r.pending = data, true
		return r, nil
	})
	if err != nil {
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
	before := NewRecord(identity, fingerprint)
	next := before.Successor()
	if next.PreviousID != before.InstallationID || next.InstallationID == before.InstallationID {
		t.Errorf("got %s after %s, want an id of its own after %s", next.InstallationID, next.PreviousID, before.InstallationID)
	}
	if next.Phase != Installing || next.Identity != identity || next.Fingerprint != fingerprint {
		t.Errorf("got %+v, want the same identity and fingerprint, installing", next)
	}
}

func TestHoldEndsByItself(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := openStore(t)
		record := NewRecord(identity, fingerprint)
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
		s := openStore(t)
		start := time.Now()
		record := NewRecord(identity, fingerprint)
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
	record, err := s.Load(identity)
	if err != nil {
		t.Fatal(err)
	}
	return record
}
