package commands

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"choria-provision/internal/fleet"
	"choria-provision/internal/lab"
)

// terminal makes a pseudo terminal: what a command writes to tty is read from
// screen.
func terminal(t *testing.T) (screen, tty *os.File) {
	t.Helper()
	screen, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = screen.Close() })
	if err := unix.IoctlSetPointerInt(int(screen.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(screen.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tty.Close() })
	return screen, tty
}

// TestDiscoverShowsItsProgress waits for a node that answered and for both
// silent ones to be called, then ends the command.
func TestDiscoverShowsItsProgress(t *testing.T) {
	t.Parallel()
	l := startLab(t, lab.Options{Simulate: 3, Enrollment: lab.Insecure, Faults: []fleet.Fault{{Kind: fleet.Silent, Share: 0.67}}})
	screen, tty := terminal(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	context.AfterFunc(ctx, func() { _ = screen.Close() }) // ends the reading
	ended := make(chan int, 1)
	go func() {
		defer cancel()
		args := []string{"--config", l.ConfigFile(), "--choria-config", l.ChoriaFile(), "--state-dir", l.StateDir(), "discover"}
		ended <- Run(ctx, args, Streams{In: strings.NewReader(""), Out: &bytes.Buffer{}, Err: tty})
	}()
	var shown bytes.Buffer
	part := make([]byte, 4096)
	for !strings.Contains(shown.String(), "2 at their first call") || !strings.Contains(shown.String(), " 1 of 3") {
		n, err := screen.Read(part)
		if err != nil {
			t.Fatalf("%v: got on the terminal:\n%s", err, &shown)
		}
		shown.Write(part[:n])
	}
	cancel()
	if code := <-ended; code != exitInterrupted {
		t.Errorf("got exit code %d, want %d", code, exitInterrupted)
	}
}
