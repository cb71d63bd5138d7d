package commands

import (
	"context"
	"fmt"
	"time"

	"choria-provision/config"
	"choria-provision/discovery"
)

type onceOptions struct {
	cycleOptions
	match   []string
	limit   number
	workers number
	timeout time.Duration
}

func (a *app) once() {
	o := onceOptions{cycleOptions: cycleOptions{command: "once", alone: true}}
	c := a.cli.Command("once", "Provisions every node that waits, then exits")
	c.Flag("dry-run", "Show what would happen, change nothing").UnNegatableBoolVar(&o.dryRun)
	c.Flag("run-helper", "With --dry-run: also ask the helper and show what it would send").UnNegatableBoolVar(&o.runHelper)
	c.Flag("match", "Only nodes whose name fits: a glob, or a regular expression between slashes; repeatable").PlaceHolder("PATTERN").StringsVar(&o.match)
	numberFlag(c.Flag("limit", "Work on no more than N nodes").PlaceHolder("N"), 0, &o.limit)
	numberFlag(c.Flag("workers", "Work on N nodes at once, each from its first answer to its outcome; until it answers a node counts for none").PlaceHolder("N"), 1, &o.workers)
	durationFlag(c.Flag("timeout", "Start nothing after this long").PlaceHolder("D"), &o.timeout)
	c.Flag("force", "Ignore the hold of nodes that were just worked on").UnNegatableBoolVar(&o.force)
	c.Flag("no-metrics", "Neither push nor write metrics").UnNegatableBoolVar(&o.noMetrics)
	a.chooses(c, func(stop context.Context) error { return a.runOnce(stop, o) })
}

// runOnce is one cycle: what waits is found by broadcast and provisioned.
func (a *app) runOnce(stop context.Context, o onceOptions) error {
	match, err := discovery.ParseMatch(o.match)
	if err != nil {
		return usageError{err}
	}
	c, err := a.newCycle(stop, o.cycleOptions)
	if err != nil {
		return err
	}
	o.override(c.cfg)
	return c.do(func(c *cycle) ([]discovery.Sighting, error) { return c.discover(match) }, nil)
}

func (o onceOptions) override(cfg *config.Config) {
	if o.limit.given {
		cfg.Limit = o.limit.n
	}
	if o.workers.given {
		cfg.Workers = o.workers.n
	}
	if o.timeout > 0 {
		cfg.RunTimeout = config.Duration{Duration: o.timeout}
	}
}

// discover asks once who waits and keeps the ones whose name fits.
func (c *cycle) discover(match discovery.Match) ([]discovery.Sighting, error) {
	seen, err := discovery.Broadcast(c.stop, c.conn, c.cfg.DiscoveryTimeout.Duration, c.seen.tell)
	if c.stop.Err() != nil {
		return nil, fmt.Errorf("%w: during discovery", interruption(c.stop))
	}
	if err != nil {
		return nil, fmt.Errorf("discovery: %w", withRemedy(err))
	}
	wanted := seen[:0]
	for _, s := range seen {
		if match(s.Identity) {
			wanted = append(wanted, s)
		}
	}
	return wanted, nil
}
