package provision

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"choria-provision/config"
)

// BenchmarkHelper compares the forms of the helper and, for the floor, a bare
// start of the same process.
func BenchmarkHelper(b *testing.B) {
	in := HelperInput{Identity: "n1.example.net", Inventory: "{}"}
	command := func(dir, name string) ExecHelper {
		return ExecHelper{Command: config.Command{Args: []string{"sh", filepath.Join("testdata", dir, name+".sh")}}, Timeout: time.Minute}
	}
	run := func(b *testing.B, h Helper) {
		for b.Loop() {
			if _, err := h.Answer(b.Context(), in); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.Run("exec", func(b *testing.B) { run(b, command("talker", "once")) })
	b.Run("persistent", func(b *testing.B) {
		h := NewPersistentHelper(command("talker", "good"))
		defer h.Close()
		run(b, h)
	})
	b.Run("floor", func(b *testing.B) {
		for b.Loop() {
			p, err := os.StartProcess("/bin/sh", []string{"sh", "-c", "exit"}, &os.ProcAttr{})
			if err != nil {
				b.Fatal(err)
			}
			if _, err := p.Wait(); err != nil {
				b.Fatal(err)
			}
		}
	})
}
