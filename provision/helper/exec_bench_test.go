package helper

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"choria-provision/config"
)

// BenchmarkHelper compares the forms of the helper and, for the floor, a bare
// start of the same process. own-ns/op is our own processor time, the helper's
// left out.
func BenchmarkHelper(b *testing.B) {
	in := Input{Identity: "n1.example.net", Inventory: "{}"}
	command := func(dir, name string) Exec {
		return Exec{Command: config.Command{Args: []string{"sh", filepath.Join("testdata", dir, name+".sh")}}, Timeout: time.Minute}
	}
	loop := func(b *testing.B, do func() error) {
		before := ownTime(b)
		for b.Loop() {
			if err := do(); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(ownTime(b)-before)/float64(b.N), "own-ns/op")
	}
	run := func(b *testing.B, h Helper) {
		loop(b, func() error {
			_, err := h.Answer(b.Context(), in)
			return err
		})
	}
	b.Run("exec", func(b *testing.B) { run(b, command("worker", "once")) })
	b.Run("persistent", func(b *testing.B) {
		h := NewPool(command("worker", "good"))
		defer h.Close()
		run(b, h)
	})
	b.Run("floor", func(b *testing.B) {
		loop(b, func() error {
			p, err := os.StartProcess("/bin/sh", []string{"sh", "-c", "exit"}, &os.ProcAttr{})
			if err != nil {
				return err
			}
			_, err = p.Wait()
			return err
		})
	})
}

// ownTime is the processor time that this process has used.
func ownTime(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
