package commands

import (
	"context"
	"time"

	"choria-provision/output"
	"choria-provision/provision/installstate"
)

func (a *app) status() {
	c := a.cli.Command("status", "Shows the last run and every node that is not simply done, and why")
	c.Action(a.choose(func(stop context.Context) error { return a.runStatus(stop) }))
}

// statusDocument is what `provision status --output json` prints. All texts are
// escaped.
type statusDocument struct {
	SchemaVersion int                 `json:"schema_version"`
	StateDir      string              `json:"state_dir"`
	RunAs         string              `json:"run_as,omitempty"` // owner of the state directory, when another user than this one
	Now           time.Time           `json:"now"`
	Running       *runningNow         `json:"running" jsonschema:"nullable"` // null: no run is at work
	Pause         *installstate.Pause `json:"pause" jsonschema:"nullable"`   // null: not paused
	LastRun       *lastRun            `json:"last_run" jsonschema:"nullable"`
	Host          string              `json:"host,omitempty"`  // this one, when the records are shared
	Hosts         []hostRun           `json:"hosts,omitempty"` // the last run of each, when the records are shared
	Records       recordCounts        `json:"records"`
	Nodes         []nodeStatus        `json:"nodes"` // those that are not simply complete
	Problems      []string            `json:"problems,omitempty"`
}

// runningNow is a process that holds a lock; PID is 0 when it did not say.
type runningNow struct {
	PID     int       `json:"pid"`
	Host    string    `json:"host,omitempty"` // empty: this one
	Started time.Time `json:"started,omitzero"`
}

// lastRun is the last run as a whole.
type lastRun struct {
	output.Run
	Totals output.Totals `json:"totals"`
}

// hostRun is the last run on one host.
type hostRun struct {
	Host    string   `json:"host"`
	LastRun *lastRun `json:"last_run" jsonschema:"nullable"`
}

// recordCounts counts records by phase; Unusable ones have none.
type recordCounts struct {
	Installing int `json:"installing"`
	Complete   int `json:"complete"`
	Resetting  int `json:"resetting"`
	Unusable   int `json:"unusable"`
}

func (a *app) runStatus(stop context.Context) error {
	cfg, err := a.load()
	if err != nil {
		return err
	}
	store, err := a.readStore(stop, cfg)
	if err != nil {
		return err
	}
	defer store.Close()
	doc, err := gatherStatus(store, time.Now())
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

// gatherStatus reads the state and changes nothing in it. The records must be
// readable; anything else that is not becomes one of the problems.
func gatherStatus(store *installstate.Store, now time.Time) (statusDocument, error) {
	doc := statusDocument{
		SchemaVersion: 1, StateDir: store.Dir(), RunAs: installstate.RunAs(store.Dir()), Now: now.UTC().Round(0),
		Host: output.Escape(store.Host()), Nodes: []nodeStatus{},
	}
	entries, err := store.List()
	if err != nil {
		return doc, err
	}
	reports, err := lastReports(store)
	doc.problem(err)
	doc.lastRuns(reports)
	doc.Pause, err = store.Pause()
	doc.problem(err)
	holder, running, err := store.RunHolder()
	doc.problem(err)
	if running {
		doc.Running = &runningNow{holder.PID, "", holder.Since}
	}
	doc.Records = countRecords(entries)
	doc.Nodes = append(doc.Nodes, nodeStates(entries, reports, now)...)
	return doc, nil
}

// lastRuns sets this host's last run, and that of each host.
func (d *statusDocument) lastRuns(reports []hostReport) {
	for _, r := range reports {
		run := &lastRun{r.doc.Run, r.doc.Totals}
		if r.host == d.Host {
			d.LastRun = run
		}
		if r.host != "" {
			d.Hosts = append(d.Hosts, hostRun{r.host, run})
		}
	}
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
