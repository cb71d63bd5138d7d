package commands

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"choria-provision/config"
	"choria-provision/output"
	"choria-provision/provision/installstate"
)

// The copy for scripts must not cost the report that status and the next run use.
func TestReportIsKeptWhenItsCopyCannotBeMade(t *testing.T) {
	t.Parallel()
	store := storeIn(t)
	if err := os.MkdirAll(filepath.Join(store.Dir(), output.LastRunFile, "in the way"), 0o700); err != nil {
		t.Fatal(err)
	}
	c := &cycle{cfg: &config.Config{StateDir: store.Dir()}, store: store}
	doc := output.Document{SchemaVersion: output.SchemaVersion, Run: output.Run{Command: "once"}}
	if err := c.remember(&doc); err == nil {
		t.Error("got no error, want the copy's")
	}
	if got, err := lastReport(store); err != nil || got == nil || got.Run.Command != "once" {
		t.Errorf("got %+v, %v, want the report", got, err)
	}
}

// A dry run with a state that cannot be read has nothing to plan with: it ends
// before it calls anybody, and says so once.
func TestDryRunEndsWhenTheStateCannotBeRead(t *testing.T) {
	t.Parallel()
	var told bytes.Buffer
	c := &cycle{app: &app{Streams: Streams{Err: &told}}, store: brokenStore(t), options: cycleOptions{dryRun: true}}
	if err := c.admitted(); !errors.Is(err, installstate.ErrDamaged) || told.Len() != 0 {
		t.Errorf("got %v and %q, want the failure alone", err, &told)
	}
}
