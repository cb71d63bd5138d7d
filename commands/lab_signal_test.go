package commands

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"

	"choria-provision/internal/lab"
	"choria-provision/output"
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

// TestALostTerminalEndsARunInOrder closes the terminal of a run whose helper is
// at work, as the end of an ssh session does.
func TestALostTerminalEndsARunInOrder(t *testing.T) {
	t.Parallel()
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, syscall.SIGHUP) // what is caught is not inherited, what is ignored is
	t.Cleanup(func() { signal.Stop(caught) })
	l := startLab(t, lab.Options{Nodes: 1, Enrollment: lab.Insecure})
	if err := l.SetConfig(map[string]any{"helper_timeout": "1m"}); err != nil {
		t.Fatal(err)
	}
	if err := l.Behave("*", lab.Behaviour{Do: lab.Hang}); err != nil {
		t.Fatal(err)
	}
	cmd, _, _ := provisionCommand(t, l, "once")
	cmd.Stdout, cmd.Stderr = nil, nil
	terminal, err := pty.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	shown := make(chan struct{})
	go func() {
		defer close(shown)
		_, _ = io.Copy(io.Discard, terminal)
	}()
	awaitHelper(t, l)
	if err := terminal.Close(); err != nil {
		t.Error(err)
	}
	if r := ended(t, cmd.Wait(), &bytes.Buffer{}, &bytes.Buffer{}); r.code != exitInterrupted {
		t.Errorf("got exit code %d, want %d", r.code, exitInterrupted)
	}
	<-shown
	if left := helpersLeft(t, l); len(left) != 0 {
		t.Errorf("still running: %v", left)
	}
	text, err := os.ReadFile(filepath.Join(l.StateDir(), output.LastRunFile))
	if err != nil {
		t.Fatal(err)
	}
	var report output.Document
	if err := json.Unmarshal(text, &report); err != nil {
		t.Fatal(err)
	}
	if report.Run.ExitCode != exitInterrupted || !strings.Contains(report.Run.Error, "SIGHUP") {
		t.Errorf("got a report of exit code %d and %q, want %d by SIGHUP", report.Run.ExitCode, report.Run.Error, exitInterrupted)
	}
}

// TestAClosedPipeEndsNoRun has nobody read what a run writes.
func TestAClosedPipeEndsNoRun(t *testing.T) {
	t.Parallel()
	l := startLab(t, lab.Options{Nodes: 2, Enrollment: lab.Insecure})
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := reader.Close(); err != nil {
		t.Fatal(err)
	}
	cmd, _, _ := provisionCommand(t, l, "once")
	cmd.Stdout, cmd.Stderr = writer, writer
	failed := cmd.Run()
	if err := writer.Close(); err != nil {
		t.Error(err)
	}
	if r := ended(t, failed, &bytes.Buffer{}, &bytes.Buffer{}); r.code != exitRun {
		t.Errorf("got exit code %d, want %d: the result was lost", r.code, exitRun)
	}
	if got := inService(t, l); len(got) != 2 {
		t.Errorf("in service: %v, want both", got)
	}
}
