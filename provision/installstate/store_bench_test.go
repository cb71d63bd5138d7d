package installstate

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"
)

// BenchmarkInstallation is what one node costs here from its lock to the
// release of it: two durable writes and a note, alone as in `provision node` and
// in a run.
func BenchmarkInstallation(b *testing.B) {
	b.Run("alone", func(b *testing.B) { installMany(b, NewStore(b.TempDir())) })
	b.Run("run", func(b *testing.B) {
		s := NewStore(b.TempDir())
		lock, err := s.AcquireRunLock()
		if err != nil {
			b.Fatal(err)
		}
		installMany(b, s)
		lock.Release()
	})
}

func installMany(b *testing.B, s *Store) {
	b.Helper()
	if err := s.CheckWritable(); err != nil {
		b.Fatal(err)
	}
	var number atomic.Int64
	b.ReportAllocs()
	b.SetParallelism(5)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if err := install(s, fmt.Sprintf("node%d.example.net", number.Add(1))); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

func install(s *Store, name string) error {
	lock, err := s.AcquireLock(name)
	if err != nil {
		return err
	}
	defer lock.Release()
	if _, _, err := Admit(s, name, fingerprint); err != nil {
		return err
	}
	record := NewRecord(name, fingerprint)
	if err := s.Save(record); err != nil {
		return err
	}
	record.RestartAsked = time.Now()
	if err := lock.NoteRestart(record); err != nil {
		return err
	}
	return s.MarkComplete(record)
}

// BenchmarkRestartAsked is what each run pays for a fleet that is in service.
func BenchmarkRestartAsked(b *testing.B) {
	const fleet = 1000
	s := NewStore(b.TempDir())
	run, err := s.AcquireRunLock()
	if err != nil {
		b.Fatal(err)
	}
	for i := range fleet {
		if err := install(s, fmt.Sprintf("node%d.example.net", i)); err != nil {
			b.Fatal(err)
		}
	}
	run.Release()
	for b.Loop() {
		if asked, err := s.RestartAsked(); err != nil || asked != nil {
			b.Fatalf("got %q, %v, want none", asked, err)
		}
	}
}
