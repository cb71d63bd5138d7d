package commands

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"choria-provision/provision"
	"choria-provision/provision/installstate"
)

// storeIn returns the store in a directory of its own.
func storeIn(t *testing.T) *installstate.Store {
	t.Helper()
	store := installstate.NewStore(t.TempDir())
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return store
}

// brokenStore returns a store whose database is empty.
func brokenStore(t *testing.T) *installstate.Store {
	t.Helper()
	store := storeIn(t)
	if err := os.WriteFile(filepath.Join(store.Dir(), installstate.DatabaseFile), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return store
}

func TestPauseIsToldOnce(t *testing.T) {
	t.Parallel()
	store := storeIn(t)
	if err := store.SetPause(installstate.Pause{Reason: "freeze", Since: time.Now().UTC()}); err != nil {
		t.Fatal(err)
	}
	paused := checkPause(store)
	w := &watch{}
	w.pause.Store(&paused)
	for who, err := range map[string]error{"a run": mayWork(store, nil)(), "watch": w.may()} {
		if !errors.Is(err, provision.ErrPaused) || strings.Count(err.Error(), "paused") != 1 || strings.Contains(err.Error(), errNothing.Error()) || !strings.Contains(err.Error(), "freeze") {
			t.Errorf("%s: got %v, want the pause and its reason, once", who, err)
		}
	}
}

// A state that cannot be read is no pause: nobody has paused anything.
func TestStateThatFailsIsNoPause(t *testing.T) {
	t.Parallel()
	store := brokenStore(t)
	failure := checkPause(store)
	w := &watch{}
	w.pause.Store(&failure)
	for who, err := range map[string]error{"a run": mayWork(store, nil)(), "watch": w.may()} {
		if !errors.Is(err, provision.ErrState) || errors.Is(err, provision.ErrPaused) || err.Error() != failure.Error() {
			t.Errorf("%s: got %v, want %v as a failure of the state", who, err, failure)
		}
	}
	if err := w.stateErr(); !errors.Is(err, installstate.ErrDamaged) {
		t.Errorf("got %v for the health of watch, want the failure", err)
	}
}

// A state that cannot be read is no fault of a node's record.
func TestDiscoverBlamesNoRecordForTheState(t *testing.T) {
	t.Parallel()
	if _, _, err := recordState(brokenStore(t), "n1", time.Now()); !errors.Is(err, installstate.ErrDamaged) {
		t.Errorf("got %v, want the failure of the state", err)
	}
}
