package commands

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"choria-provision/discovery"
	"choria-provision/output"
	"choria-provision/provision"
)

type nodeOptions struct {
	cycleOptions
	identities []string
	wait       time.Duration
}

func (a *app) node() {
	o := nodeOptions{cycleOptions: cycleOptions{command: "node"}}
	c := a.cli.Command("node", "Provisions the named nodes, without discovery")
	c.Arg("identity", "Names of the nodes").Required().StringsVar(&o.identities)
	c.Flag("dry-run", "Show what would happen, change nothing").UnNegatableBoolVar(&o.dryRun)
	c.Flag("run-helper", "With --dry-run: also ask the helper and show what it would send").UnNegatableBoolVar(&o.runHelper)
	c.Flag("force", "Ignore the hold of a node that was just worked on").UnNegatableBoolVar(&o.force)
	durationFlag(c.Flag("wait", "Wait this long for the nodes to leave provisioning").PlaceHolder("D"), &o.wait)
	c.Flag("no-metrics", "Neither push nor write metrics").UnNegatableBoolVar(&o.noMetrics)
	a.chooses(c, func(stop context.Context) error { return a.runNode(stop, o) })
}

// runNode provisions nodes by name. It works beside a running once, never on
// the same node.
func (a *app) runNode(stop context.Context, o nodeOptions) error {
	if err := checkIdentities(o.identities); err != nil {
		return err
	}
	c, err := a.newCycle(stop, o.cycleOptions)
	if err != nil {
		return err
	}
	c.cfg.Limit = 0 // who names nodes wants all of them
	find := func(*cycle) ([]discovery.Sighting, error) {
		return discovery.Admit(eachOnce(o.identities), discovery.ByName, c.seen.tell), nil
	}
	if o.wait == 0 || o.dryRun {
		return c.do(find, nil)
	}
	return c.do(find, func(c *cycle, sum provision.Summary) error { return c.awaitLeaving(sum, o.wait) })
}

// checkIdentities refuses names that no node can have.
func checkIdentities(names []string) error {
	for _, name := range names {
		if !discovery.ValidIdentity(name) {
			return usageError{fmt.Errorf("%s is not a name a node can have: letters, digits, dots, dashes and underscores", output.Escape(name))}
		}
	}
	return nil
}

// eachOnce is names in their order, without those that were there before: a
// node named twice is asked once.
func eachOnce(names []string) []string {
	seen := make(map[string]bool, len(names))
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		again := seen[name]
		seen[name] = true
		return again
	})
}

// leavingPoll is how often a node is asked whether it is still there.
const leavingPoll = 250 * time.Millisecond

// awaitLeaving waits until the broker says that no provisioned node listens in
// the provisioning collective any more.
func (c *cycle) awaitLeaving(sum provision.Summary, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(c.stop, limit)
	defer cancel()
	var left []string
	for _, result := range sum.Results {
		if result.Outcome == provision.Provisioned && !c.leaves(ctx, result.Node) {
			left = append(left, result.Node)
		}
	}
	switch {
	case len(left) == 0:
		return nil
	case c.stop.Err() != nil:
		return fmt.Errorf("%w: while waiting for nodes to leave provisioning", interruption(c.stop))
	default:
		return fmt.Errorf("%w: still in provisioning after %s: %s; look at the log of choria-server there", errNodesFailed, limit, strings.Join(left, ", "))
	}
}

func (c *cycle) leaves(ctx context.Context, node string) bool {
	rpc := provision.ChoriaRPC{Conn: c.conn}
	ticker := time.NewTicker(leavingPoll)
	defer ticker.Stop()
	for {
		asked, cancel := context.WithTimeout(ctx, leavingPoll)
		_, err := rpc.Request(asked, node, "rpcutil#ping", struct{}{})
		cancel()
		if errors.Is(err, provision.ErrGone) {
			return true
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return false
		}
	}
}
