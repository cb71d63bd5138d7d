package commands

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"time"

	"choria-provision/config"
	"choria-provision/output"
	"choria-provision/provision/installstate"
)

func (a *app) status() {
	c := a.cli.Command("status", "Shows the last run and every node that is not simply done, and why")
	c.Action(a.choose(func(context.Context) error { return a.runStatus() }))
}

// statusDocument is what `provision status --output json` prints. All texts are
// escaped.
type statusDocument struct {
	SchemaVersion int           `json:"schema_version"`
	StateDir      string        `json:"state_dir"`
	Now           time.Time     `json:"now"`
	Running       *runningNow   `json:"running"` // null: no run is at work
	Pause         *config.Pause `json:"pause"`   // null: not paused
	LastRun       *lastRun      `json:"last_run"`
	Records       recordCounts  `json:"records"`
	Nodes         []nodeStatus  `json:"nodes"` // those that are not simply complete
	Problems      []string      `json:"problems,omitempty"`
}

// runningNow is a process that holds a lock; PID is 0 when it did not say.
type runningNow struct {
	PID     int       `json:"pid"`
	Started time.Time `json:"started,omitzero"`
}

// lastRun is the last run as a whole.
type lastRun struct {
	output.Run
	Totals output.Totals `json:"totals"`
}

// recordCounts counts records by phase; Unusable ones have none.
type recordCounts struct {
	Installing int `json:"installing"`
	Complete   int `json:"complete"`
	Resetting  int `json:"resetting"`
	Unusable   int `json:"unusable"`
}

func (a *app) runStatus() error {
	cfg, err := a.load()
	if err != nil {
		return err
	}
	doc, err := gatherStatus(cfg.StateDir, time.Now())
	if err != nil {
		return err
	}
	if a.output == "json" {
		return a.writeJSON(doc)
	}
	page := output.NewPage(a.Out, output.PageOptions{Color: a.color})
	showStatus(page, doc)
	return page.Err()
}

// gatherStatus reads the state directory and changes nothing in it. What can be
// read is shown even when something else cannot; only the records must be
// readable.
func gatherStatus(dir string, now time.Time) (statusDocument, error) {
	store := installstate.NewStore(dir)
	doc := statusDocument{SchemaVersion: 1, StateDir: dir, Now: now.UTC().Round(0), Nodes: []nodeStatus{}}
	entries, err := store.List()
	if err != nil {
		return doc, err
	}
	report, err := output.LoadLastRun(filepath.Join(dir, output.LastRunFile))
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		doc.problem(err)
	default:
		doc.LastRun = &lastRun{report.Run, report.Totals}
	}
	doc.Pause, err = config.LoadPause(dir)
	doc.problem(err)
	holder, running, err := store.RunHolder()
	doc.problem(err)
	if running {
		doc.Running = &runningNow{holder.PID, holder.Since}
	}
	doc.Records = countRecords(entries)
	doc.Nodes = append(doc.Nodes, nodeStates(entries, report, now)...)
	return doc, nil
}

func (d *statusDocument) problem(err error) {
	if err != nil {
		d.Problems = append(d.Problems, output.Escape(err.Error()))
	}
}

func countRecords(entries []installstate.Entry) recordCounts {
	var c recordCounts
	for _, entry := range entries {
		switch {
		case entry.Err != nil:
			c.Unusable++
		case entry.Record.Phase == installstate.Installing:
			c.Installing++
		case entry.Record.Phase == installstate.Complete:
			c.Complete++
		case entry.Record.Phase == installstate.Resetting:
			c.Resetting++
		}
	}
	return c
}
