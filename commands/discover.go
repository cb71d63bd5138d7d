package commands

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"choria-provision/discovery"
	"choria-provision/output"
	"choria-provision/provision"
	"choria-provision/provision/installstate"
)

type discoverOptions struct {
	names bool
	match []string
}

func (a *app) discover() {
	var o discoverOptions
	c := a.cli.Command("discover", "Shows who waits: identity, version, whether it can be upgraded, record")
	c.Flag("names", "Print names only, one a line, without asking the nodes").UnNegatableBoolVar(&o.names)
	c.Flag("match", "Only nodes whose name fits: a glob, or a regular expression between slashes; repeatable").PlaceHolder("PATTERN").StringsVar(&o.match)
	a.chooses(c, func(stop context.Context) error { return a.runDiscover(stop, o) })
}

// found is what discover shows of one node.
type found struct {
	Identity   string `json:"identity"`
	Version    string `json:"version,omitempty"`
	Upgradable *bool  `json:"upgradable,omitempty"`
	Record     string `json:"record"` // none, installing, complete, resetting, unusable, other
	Held       bool   `json:"held"`
	Error      string `json:"error,omitempty"` // why the node was not asked or did not answer
}

// refusedSighting is an identity that could not be provisioned.
type refusedSighting struct {
	Identity string `json:"identity"`
	Count    int    `json:"count"`
	Error    string `json:"error"`
}

type discovered struct {
	SchemaVersion int               `json:"schema_version"`
	Nodes         []found           `json:"nodes"`
	Refused       []refusedSighting `json:"refused"`
}

// Observe implements output.Observer.
func (d *discovered) Observe(event any) {
	if e, ok := event.(discovery.Refused); ok {
		d.Refused = append(d.Refused, refusedSighting{output.Escape(e.Identity), e.Count, e.Err.Error()})
	}
}

// runDiscover looks and changes nothing, on nodes or on disk.
func (a *app) runDiscover(stop context.Context, o discoverOptions) error {
	match, err := discovery.ParseMatch(o.match)
	if err != nil {
		return usageError{err}
	}
	c, err := a.newCycle(stop, cycleOptions{command: "discover", dryRun: true})
	if err != nil {
		return err
	}
	defer c.close()
	c.limitTime()
	report := discovered{SchemaVersion: output.SchemaVersion, Nodes: []found{}, Refused: []refusedSighting{}}
	closeLive, err := c.observeDiscovery(&report)
	if err != nil {
		return err
	}
	defer closeLive()
	if c.conn, err = c.connect(c.stop, c.cfg, c.seen.logger); err != nil {
		return err
	}
	c.closers = append(c.closers, c.conn.Close)
	waiting, err := c.discover(match)
	if err != nil {
		return err
	}
	if report.Nodes, err = c.describe(report.withoutDuplicates(waiting), o.names); err != nil {
		return err
	}
	closeLive() // before the result is written to the same terminal
	if err := c.showDiscovered(report, o.names); err != nil || c.stop.Err() == nil {
		return err
	}
	return fmt.Errorf("%w: before every node had answered", interruption(c.stop))
}

// observeDiscovery has refused sightings go to the report and progress to the
// terminal, as once shows it; the function ends that and may be called again.
func (c *cycle) observeDiscovery(report *discovered) (closeLive func(), err error) {
	observers, stderr, closeLive := []output.Observer{report}, c.Err, func() {}
	if file, ok := c.Err.(*os.File); ok && c.output == "text" && !c.unattended && output.IsTerminal(file) {
		live := output.NewLive(file, output.PageOptions{Color: c.color})
		observers, stderr, closeLive = append(observers, live), live, live.Close
	}
	redactor := output.NewRedactor(secretsOf(c.cfg))
	logger, closeLog, err := c.logger(c.cfg, stderr, redactor)
	if err != nil {
		closeLive()
		return nil, fmt.Errorf("%w: %w", errConfig, err)
	}
	c.closers = append(c.closers, func() { _ = closeLog() })
	c.seen = &seen{logger: logger, redactor: redactor, tell: redactor.Emit(output.Emit(observers...))}
	return closeLive, nil
}

// withoutDuplicates moves sightings of duplicates to the refused ones.
func (d *discovered) withoutDuplicates(seen []discovery.Sighting) []discovery.Sighting {
	return slices.DeleteFunc(seen, func(s discovery.Sighting) bool {
		var duplicate *discovery.Duplicate
		if !errors.As(s.Err, &duplicate) {
			return false
		}
		d.Refused = append(d.Refused, refusedSighting{output.Escape(s.Identity), duplicate.Count, duplicate.Unwrap().Error()})
		return true
	})
}

func (c *cycle) describe(waiting []discovery.Sighting, namesOnly bool) (nodes []found, err error) {
	nodes = make([]found, len(waiting))
	for i, s := range waiting {
		nodes[i] = found{Identity: s.Identity}
		if nodes[i].Record, nodes[i].Held, err = recordState(c.store, s.Identity, c.started); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(nodes, func(a, b found) int { return strings.Compare(a.Identity, b.Identity) })
	if namesOnly {
		return nodes, nil
	}
	names := make([]string, len(nodes))
	for i, n := range nodes {
		names[i] = n.Identity
	}
	survey := provision.Survey{RPC: redactingRPC{provision.ChoriaRPC{Conn: c.conn}, c.seen.redactor}, Config: c.cfg, Tell: c.seen.tell}
	facts := survey.Inventories(c.stop, names)
	for i, f := range facts {
		if f.Err != nil {
			nodes[i].Error = output.Escape(f.Err.Error())
			continue
		}
		nodes[i].Version, nodes[i].Upgradable = output.Escape(f.Version), &f.Upgradable
	}
	return nodes, nil
}

func (c *cycle) showDiscovered(report discovered, namesOnly bool) error {
	switch {
	case c.output == "json":
		return c.writeJSON(report)
	case namesOnly:
		for _, n := range report.Nodes {
			if _, err := fmt.Fprintln(c.Out, n.Identity); err != nil {
				return err
			}
		}
		return nil
	default:
		return c.discoveredPage(report)
	}
}

func (c *cycle) discoveredPage(report discovered) error {
	page := output.NewPage(c.Out, output.PageOptions{Color: c.color})
	table := output.Table{Columns: []output.Column{{Title: "NODE"}, {Title: "VERSION"}, {Title: "UPGRADABLE"}, {Title: "RECORD"}, {Title: "DETAIL", Flex: true}}}
	for _, n := range report.Nodes {
		record := n.Record
		if n.Held {
			record += ", held"
		}
		table.Rows = append(table.Rows, output.Cells(n.Identity, n.Version, yesNo(n.Upgradable), record, n.Error))
	}
	if len(table.Rows) == 0 {
		page.Text(output.Plain, "Nobody waits to be provisioned.")
	} else {
		page.Table(table)
	}
	for _, r := range report.Refused {
		page.Warning(fmt.Sprintf("%s was seen %d times and is refused: %s", r.Identity, r.Count, r.Error))
	}
	return page.Err()
}

func yesNo(b *bool) string {
	switch {
	case b == nil:
		return ""
	case *b:
		return "yes"
	default:
		return "no"
	}
}

// recordState is a node's record in a word, and whether it is held. The error is
// that of the state as a whole.
func recordState(store *installstate.Store, identity string, now time.Time) (state string, held bool, err error) {
	record, err := store.Load(identity)
	switch {
	case errors.Is(err, installstate.ErrNotFound):
		return "none", false, nil
	case errors.Is(err, installstate.ErrUnusable):
		return "unusable", false, nil
	case err != nil:
		return "", false, err
	default:
		return string(record.Phase), record.Held(now), nil
	}
}
