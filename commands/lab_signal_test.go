package commands

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"choria-provision/internal/lab"
)

func TestASignalEndsALabAndItsDirectory(t *testing.T) {
	t.Parallel()
	// Tests that nohup started ignore SIGHUP, and what they start would inherit
	// that; what is caught is not inherited.
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, syscall.SIGHUP)
	t.Cleanup(func() { signal.Stop(caught) })
	tests := []struct {
		name    string
		signals []syscall.Signal
		command []string
		code    int
	}{
		{"SIGTERM", []syscall.Signal{syscall.SIGTERM}, nil, exitDone},
		{"SIGINT", []syscall.Signal{syscall.SIGINT}, nil, exitDone},
		{"SIGHUP", []syscall.Signal{syscall.SIGHUP}, nil, exitDone},
		{"several of a lost terminal", []syscall.Signal{syscall.SIGHUP, syscall.SIGHUP, syscall.SIGHUP}, nil, exitDone},
		{"with a command to which SIGHUP means something else", []syscall.Signal{syscall.SIGHUP}, []string{"--", "sh", "-c",
			"trap '' HUP; trap 'kill $!; exit 9' TERM; sleep 600 & echo runs; wait"}, 9},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			self, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			program := filepath.Join(t.TempDir(), "provision") // a script's command is known by its name
			if err := os.Symlink(self, program); err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(ctx, program, append([]string{"lab", "--nodes", "1", "--enrollment", lab.Insecure}, tt.command...)...)
			cmd.Env = append(os.Environ(), "TMPDIR="+dir)
			cmd.WaitDelay = time.Second
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			stdout, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			if _, err := stdout.Read(make([]byte, 1)); err != nil { // it is up now
				t.Errorf("the lab says nothing: %v", err)
			}
			for _, s := range tt.signals {
				if err := cmd.Process.Signal(s); err != nil {
					t.Error(err)
				}
			}
			_, _ = io.Copy(io.Discard, stdout) // until it ends
			r := ended(t, cmd.Wait(), &bytes.Buffer{}, &stderr)
			if r.code != tt.code {
				t.Errorf("got exit code %d, want %d\n%s", r.code, tt.code, r.stderr)
			}
			if left, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(left) != 0 {
				t.Errorf("left behind: %s, %v", strings.Join(left, " "), err)
			}
		})
	}
}
