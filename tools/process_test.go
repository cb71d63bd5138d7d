package tools

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// start runs one of the programs until the test ends and returns the first line
// of its output that holds ready; by then it works.
func start(t *testing.T, ready, program string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	cmd := exec.CommandContext(ctx, filepath.Join(built, program), args...)
	cmd.WaitDelay = 10 * time.Second
	reader, writer := io.Pipe()
	cmd.Stdout, cmd.Stderr = writer, writer
	if err := cmd.Start(); err != nil {
		cancel()
		t.Fatal(err)
	}
	exited := make(chan error, 1)
	go func() {
		err := cmd.Wait()
		writer.Close()
		exited <- err
	}()
	t.Cleanup(func() {
		defer cancel()
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended by itself
		if err := <-exited; err != nil && !endedByUs(err) {
			t.Errorf("%s: %v", program, err)
		}
	})
	return awaitLine(t, reader, ready, program)
}

// awaitLine reads until the line comes, and everything after it away.
func awaitLine(t *testing.T, from io.Reader, ready, program string) string {
	t.Helper()
	lines := bufio.NewScanner(from)
	var before strings.Builder
	for lines.Scan() {
		if strings.Contains(lines.Text(), ready) {
			go func() { _, _ = io.Copy(io.Discard, from) }() // ends with the process
			return lines.Text()
		}
		before.WriteString(lines.Text() + "\n")
	}
	t.Fatalf("%s ended before it said %q:\n%s", program, ready, before.String())
	return ""
}

func endedByUs(err error) bool {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGTERM
}

// ran is what a run of the product left.
type ran struct {
	code           int
	stdout, stderr string
}

// run runs the product to its end, with more in its environment.
func run(t *testing.T, environment []string, args ...string) ran {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(built, "provision"), args...)
	cmd.Env = append(cmd.Environ(), environment...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		t.Fatalf("provision %v did not end within %s", args, patience)
	case errors.As(err, &exit):
		return ran{exit.ExitCode(), stdout.String(), stderr.String()}
	case err != nil:
		t.Fatal(err)
	}
	return ran{0, stdout.String(), stderr.String()}
}
