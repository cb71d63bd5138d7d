package helper

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"choria-provision/config"

	"github.com/google/go-cmp/cmp"
)

func TestHelperIsNotTakenForTheServiceItself(t *testing.T) {
	t.Parallel()
	ours := []string{"PATH=/bin", "NOTIFY_SOCKET=/run/systemd/notify", "WATCHDOG_USEC=30000000", "WATCHDOG_PID=7", "NOTIFY=me", "=odd"}
	want := []string{"PATH=/bin", "NOTIFY=me", "=odd", "PROVISION_DRY_RUN=1"}
	if diff := cmp.Diff(want, helperEnv(ours, []string{"PROVISION_DRY_RUN=1"})); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
}

// newProgram writes an executable file.
func newProgram(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "helper")
	if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// both are the two modes of a helper of one command.
func both(t *testing.T, h Exec) map[string]Helper {
	persistent := NewPool(h)
	t.Cleanup(persistent.Close)
	return map[string]Helper{"exec": h, "persistent": persistent}
}

func TestProgramsThatCannotBeStartedAreToldApart(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, text, says string }{
		{"no #! line", "echo hello\n", "it is a text without a #! line"},
		{"CRLF", "#!/bin/sh\r\necho\r\n", "it has a #! line that ends in CRLF"},
		{"empty", "", "it is empty"},
		{"wrong format", "PK\x03\x04\x00\x00", "it is in no format that this system runs"},
		{"no interpreter", "#!/nowhere/ruby\n", "it is a script for /nowhere/ruby, which does not exist"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for mode, h := range both(t, Exec{Command: config.Command{Args: []string{newProgram(t, tt.text)}}}) {
				_, err := h.Answer(t.Context(), Input{Identity: "n1"})
				if err == nil {
					t.Errorf("%s: got an answer, want none", mode)
				}
				wantCause(t, err, ErrFailed, tt.says)
			}
		})
	}
}

// A file that is open for writing cannot be run: whatever replaces a helper in
// place has it open for a moment.
func TestHelperThatIsBeingReplacedIsTriedAgain(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("other systems run a file that is open for writing")
	}
	for _, mode := range []string{"exec", "persistent"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			path := newProgram(t, "#!/bin/sh\nread -r _\necho '{\"identity\":\"n1\",\"msg\":\"new\"}'\n")
			writer, err := os.OpenFile(path, os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			tries := 0
			h := both(t, Exec{Command: config.Command{Args: []string{path}}, Timeout: time.Minute, wait: func(ctx context.Context) {
				if tries++; tries == 3 {
					_ = writer.Close()
				} else if tries > 3 { // a process that was forked meanwhile has it open, too
					sleepBusy(ctx)
				}
			}})[mode]
			got, err := h.Answer(t.Context(), Input{Identity: "n1"})
			if err != nil || got.Message != "new" || tries < 3 {
				t.Errorf("got %q and error %v after %d waits, want its answer after 3", got.Message, err, tries)
			}
		})
	}
}

func TestHelperThatStaysBusyIsSaidToBe(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("other systems run a file that is open for writing")
	}
	path := newProgram(t, "#!/bin/sh\n")
	writer, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	tries := 0
	h := Exec{Command: config.Command{Args: []string{path}}, wait: func(context.Context) { tries++ }}
	_, err = h.Answer(t.Context(), Input{})
	wantCause(t, err, ErrFailed, "it is open for writing")
	if err == nil || tries != busyTries-1 {
		t.Errorf("got error %v after %d waits, want one after %d", err, tries, busyTries-1)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	h.wait = func(context.Context) { cancel(errors.New("the operator said stop")) }
	_, err = h.Answer(ctx, Input{})
	wantCause(t, err, ErrFailed, "the operator said stop")
}
