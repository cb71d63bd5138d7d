package commands

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"choria-provision/provision/installstate"

	"github.com/google/go-cmp/cmp"
)

// recorded returns a store in which the named nodes are being installed.
func recorded(t *testing.T, names ...string) *installstate.Store {
	t.Helper()
	store := installstate.NewStore(filepath.Join(t.TempDir(), "state"))
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, name := range names {
		if err := store.Save(installstate.NewRecord(name, installstate.Fingerprint(nil))); err != nil {
			t.Fatal(err)
		}
	}
	return store
}

// phases returns what is recorded, by node.
func phases(t *testing.T, store *installstate.Store) map[string]installstate.Phase {
	t.Helper()
	entries, err := store.List()
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]installstate.Phase)
	for _, entry := range entries {
		if entry.HasRecord() {
			all[entry.Identity] = entry.Record.Phase
		}
	}
	return all
}

func TestResetMarksTheRecordBeforeItTouchesTheNode(t *testing.T) {
	t.Parallel()
	store := recorded(t, "n1")
	r := resetter{store: store, send: func(context.Context, string) error {
		if got := phases(t, store)["n1"]; got != installstate.Resetting {
			t.Errorf("got %q while the node is sent back, want resetting", got)
		}
		if _, err := store.AcquireLock("n1"); !errors.Is(err, installstate.ErrLockHeld) {
			t.Errorf("got %v, want the lock held meanwhile", err)
		}
		return nil
	}}
	results, err := r.resetAll(t.Context(), []string{"n1"})
	if diff := cmp.Diff([]resetResult{{Identity: "n1", Outcome: resetReprovisioned}}, results); diff != "" || err != nil {
		t.Errorf("got %v, (-want +got):\n%s", err, diff)
	}
	if got := phases(t, store); len(got) != 0 {
		t.Errorf("got %v, want no record", got)
	}
}

func TestResetThatFailedIsFinishedByTheNext(t *testing.T) {
	t.Parallel()
	store := recorded(t, "n1", "n2")
	silence := errors.New("the node did not answer in time")
	var sent []string
	r := resetter{store: store, send: func(_ context.Context, identity string) error {
		sent = append(sent, identity)
		if identity == "n1" {
			return silence
		}
		return nil
	}}
	results, err := r.resetAll(t.Context(), []string{"n1", "n2"})
	if got := exitCode(err, false); got != exitNodes {
		t.Errorf("got exit code %d (%v), want %d", got, err, exitNodes)
	}
	if len(results) != 2 || !strings.Contains(results[0].Error, silence.Error()) || results[1].Outcome != resetReprovisioned {
		t.Errorf("got %+v, want n1 failed with its cause and n2 done", results)
	}
	if diff := cmp.Diff(map[string]installstate.Phase{"n1": installstate.Resetting}, phases(t, store)); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
	r.send = nil
	if _, err := r.resetAll(t.Context(), []string{"n1"}); err != nil {
		t.Error(err)
	}
	if got := phases(t, store); len(got) != 0 || len(sent) != 2 {
		t.Errorf("got records %v and calls %v, want none left and none more", got, sent)
	}
}

func TestResetSendsBackANodeWithoutRecord(t *testing.T) {
	t.Parallel()
	var sent []string
	r := resetter{store: recorded(t), send: func(_ context.Context, identity string) error {
		sent = append(sent, identity)
		return nil
	}}
	if _, err := r.resetAll(t.Context(), []string{"n1"}); err != nil || !cmp.Equal(sent, []string{"n1"}) {
		t.Errorf("got %v, %v, want n1 sent back", sent, err)
	}
}

func TestResetLeavesANodeAloneThatIsBeingWorkedOn(t *testing.T) {
	t.Parallel()
	store := recorded(t, "n1", "n2")
	lock, err := store.AcquireLock("n1")
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Release()
	results, err := resetter{store: store}.resetAll(t.Context(), []string{"n1", "n2"})
	if got := exitCode(err, false); got != exitNothing {
		t.Errorf("got exit code %d (%v), want %d", got, err, exitNothing)
	}
	if got := exitCode(err, true); got != exitDone {
		t.Errorf("got exit code %d for a timer, want %d", got, exitDone)
	}
	if results[0].Outcome != resetLocked || results[1].Outcome != resetForgotten {
		t.Errorf("got %+v, want n1 locked and n2 forgotten", results)
	}
	if diff := cmp.Diff(map[string]installstate.Phase{"n1": installstate.Installing}, phases(t, store)); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
}

func TestResetStopsAtASignal(t *testing.T) {
	t.Parallel()
	store := recorded(t, "n1", "n2")
	stop, signal := context.WithCancel(t.Context())
	r := resetter{store: store, send: func(context.Context, string) error { signal(); return nil }}
	results, err := r.resetAll(stop, []string{"n1", "n2"})
	if got := exitCode(err, false); got != exitInterrupted || len(results) != 1 {
		t.Errorf("got exit code %d and %+v, want %d after n1", got, results, exitInterrupted)
	}
	if diff := cmp.Diff(map[string]installstate.Phase{"n2": installstate.Installing}, phases(t, store)); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
}

func TestResetOfAllAsksFirst(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, answer string
		flags        []string
		code, left   int
	}{
		{"yes", "yes\n", nil, exitDone, 0},
		{"no", "no\n", nil, exitNothing, 2},
		{"nobody there", "", nil, exitUsage, 2},
		{"a timer", "yes\n", []string{"--unattended"}, exitUsage, 2},
		{"told before", "", []string{"--yes"}, exitDone, 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			store := recorded(t, "n1", "n2")
			file := filepath.Join(t.TempDir(), "provision.yaml")
			if err := os.WriteFile(file, []byte("helper: /bin/true\ntoken: s3cret\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			var out, errs bytes.Buffer
			args := append([]string{"reset", "--all", "--config", file, "--state-dir", store.Dir()}, test.flags...)
			code := Run(t.Context(), args, Streams{In: strings.NewReader(test.answer), Out: &out, Err: &errs})
			if left := len(phases(t, store)); code != test.code || left != test.left {
				t.Errorf("got exit code %d and %d records, want %d and %d; stderr: %s", code, left, test.code, test.left, &errs)
			}
		})
	}
}
