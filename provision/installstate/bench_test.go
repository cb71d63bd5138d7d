package installstate

import (
	"fmt"
	"sync"
	"syscall"
	"testing"
)

// BenchmarkInstallation is what the state costs a node: claim, admission, four
// writes and eight looks at the pause flag, ten nodes at once. It reports the
// processor time of the process too.
func BenchmarkInstallation(b *testing.B) {
	s := NewStore(b.TempDir())
	defer s.Close()
	if err := s.CheckWritable(); err != nil {
		b.Fatal(err)
	}
	before := processorTime(b)
	b.ResetTimer()
	var nodes sync.WaitGroup
	slots := make(chan struct{}, 10)
	for i := range b.N {
		slots <- struct{}{}
		nodes.Go(func() {
			defer func() { <-slots }()
			identity := fmt.Sprintf("n%d.example.net", i)
			if _, _, err := Admit(s, identity, fingerprint); err != nil {
				b.Error(err)
			}
			for range 8 {
				if _, err := s.Pause(); err != nil {
					b.Error(err)
				}
			}
			if err := completeOne(s, identity); err != nil {
				b.Error(err)
			}
		})
	}
	nodes.Wait()
	b.StopTimer()
	b.ReportMetric(float64(processorTime(b)-before)/float64(b.N), "cpu-ns/op")
}

// processorTime is what this process has used, in nanoseconds.
func processorTime(b *testing.B) int64 {
	b.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return used.Utime.Nano() + used.Stime.Nano()
}
