package commands

import (
	"os"
	"path/filepath"
	"testing"

	"choria-provision/config"
	"choria-provision/output"
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
