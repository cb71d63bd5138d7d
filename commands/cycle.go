package commands

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"time"

	"choria-provision/config"
	"choria-provision/discovery"
	"choria-provision/internal/network"
	"choria-provision/provision"
	"choria-provision/provision/helper"
	"choria-provision/provision/installstate"
)

// grace is what a node at work has left to get its restart when the run's own
// time is up.
const grace = 10 * time.Second

// cycleOptions is what once and node have in common.
type cycleOptions struct {
	command   string
	dryRun    bool
	runHelper bool
	force     bool
	noMetrics bool
	alone     bool // takes the run lock and the leadership
}

// cycle is one pass over nodes: it connects, finds them, has them provisioned
// and leaves a report.
type cycle struct {
	*app
	options cycleOptions
	cfg     *config.Config
	store   *installstate.Store
	started time.Time
	id      string
	spared  string // the log file that a dry run leaves alone

	stop  context.Context // no new work
	ctx   context.Context // no work at all
	seen  *seen           // who observes the run
	conn  *network.Conn
	lease *network.Lease

	closers []func()
}

// newCycle checks everything that can be checked without the network.
func (a *app) newCycle(stop context.Context, o cycleOptions) (*cycle, error) {
	if o.runHelper && !o.dryRun {
		return nil, usageError{errors.New("--run-helper goes with --dry-run: a real run always asks the helper")}
	}
	cfg, err := a.load()
	if err != nil {
		return nil, err
	}
	open := a.openStore
	if o.dryRun {
		open = a.readStore
	}
	store, err := open(stop, cfg)
	if err != nil {
		return nil, err
	}
	c := &cycle{app: a, options: o, cfg: cfg, stop: stop, store: store, started: time.Now(), id: rand.Text()[:12]}
	c.closers = append(c.closers, func() { _ = store.Close() }) // its writes have all returned
	if o.dryRun && cfg.LogFile != os.DevNull {
		c.spared, cfg.LogFile = cfg.LogFile, "" // neither made nor added to
	}
	return c, nil
}

// do runs the cycle. find returns the nodes to work on, once connected. What
// keeps the cycle from starting is returned as it is; everything later ends in
// a report.
func (c *cycle) do(find func(*cycle) ([]discovery.Sighting, error), after func(*cycle, provision.Summary) error) error {
	defer c.close()
	if err := c.admitted(); err != nil {
		return c.abort(err)
	}
	c.limitTime()
	var err error
	if c.seen, err = c.observers(); err != nil {
		return err
	}
	sum, err := c.work(find)
	if err == nil && after != nil {
		err = after(c, sum)
	}
	if errors.Is(err, errNothing) {
		c.seen.closeLive()
		return c.abort(err)
	}
	return c.seen.end(c, sum, err)
}

// admitted passes the pause flag and the run lock, and finds out whether the
// state directory can be written before anybody is called.
func (c *cycle) admitted() error {
	if c.options.dryRun {
		return c.tellOfDryRun()
	}
	if err := checkPause(c.store); err != nil {
		return err
	}
	if err := c.store.CheckWritable(); err != nil {
		return err
	}
	if !c.options.alone {
		return nil
	}
	lock, err := lockRun(c.store)
	if err != nil {
		return err
	}
	c.closers = append(c.closers, lock.Release)
	return nil
}

// tellOfDryRun says what else to know of a dry run: where its log is, and that a
// real run is at work beside it, whose doings are not in the plan. A state that
// cannot be read leaves nothing to plan with.
func (c *cycle) tellOfDryRun() error {
	if c.spared != "" && !c.unattended {
		c.say("info", "a dry run changes nothing on disk: its log goes to stderr, not to "+c.spared)
	}
	if holder, held, err := c.store.RunHolder(); err == nil && held {
		c.say("warning", fmt.Sprintf("a run is at work meanwhile (%s): nodes may be gone before this plan is read", holder))
	}
	err := checkPause(c.store)
	if !errors.Is(err, errNothing) {
		return err
	}
	c.say("warning", "a real run would do nothing now: "+withoutNothing(err))
	return nil
}

func (c *cycle) limitTime() {
	c.ctx = context.WithoutCancel(c.stop)
	limit := c.cfg.RunTimeout.Duration
	if limit == 0 {
		return
	}
	var cancelStop, cancel context.CancelFunc
	c.stop, cancelStop = context.WithTimeout(c.stop, limit)
	c.ctx, cancel = context.WithTimeout(c.ctx, limit+grace)
	c.closers = append(c.closers, cancelStop, cancel)
}

func (c *cycle) work(find func(*cycle) ([]discovery.Sighting, error)) (provision.Summary, error) {
	conn, err := c.connect(c.stop, c.cfg, c.seen.logger)
	if err != nil {
		return provision.Summary{}, err
	}
	c.conn = conn
	c.closers = append(c.closers, conn.Close)
	conn.SetFence(fence(c.store, nil))
	if err := c.lead(); err != nil {
		return provision.Summary{}, err
	}
	nodes, err := find(c)
	if err != nil {
		return provision.Summary{}, err
	}
	runner, err := c.runner()
	if err != nil {
		return provision.Summary{}, err
	}
	if err := c.followStarts(runner.Announcements); err != nil {
		return provision.Summary{}, err
	}
	sum := runner.Run(c.ctx, c.stop, nodes)
	if c.options.alone && !c.options.dryRun {
		runner.Settle(c.ctx, c.stop)
		sum.StateErr = runner.StateErr()
	}
	return sum, nil
}

// followStarts has nodes that restart while they are worked on noticed. A dry run
// gives no node anything that a restart could lose.
func (c *cycle) followStarts(announcements *provision.Announcements) error {
	if c.options.dryRun {
		return nil
	}
	unlisten, err := discovery.Listen(c.conn, c.cfg.LifecycleComponent,
		func(s discovery.Sighting) { announcements.Started(s.Identity) }, func(any) {})
	if err != nil {
		return err
	}
	c.closers = append(c.closers, unlisten)
	return nil
}

func (c *cycle) runner() (*provision.Runner, error) {
	fingerprint, err := provision.Fingerprint(c.cfg)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errConfig, err)
	}
	exec := helper.Exec{Command: c.cfg.Helper, Timeout: c.cfg.HelperTimeout.Duration}
	may := mayWork(c.store, c.lease)
	if c.options.dryRun {
		exec.Env = []string{"PROVISION_DRY_RUN=1"}
		may = func() error { return nil }
	}
	rpc := provision.ChoriaRPC{Conn: c.conn}
	return &provision.Runner{
		Config: c.cfg, RPC: rpc, Connected: rpc.Connected(c.cfg.ConnectTimeout.Duration), Helper: c.asks(exec), Store: c.store,
		Nonce: c.conn.Framework().NewRequestID, May: may, Tell: c.seen.tell, Fingerprint: fingerprint,
		DryRun: provision.DryRun{On: c.options.dryRun, RunHelper: c.options.runHelper},
		Force:  c.options.force, Limit: c.cfg.Limit, Announcements: new(provision.Announcements), Troubled: failedLastRun(c.store), Hide: c.seen.redactor.Add,
	}, nil
}

// asks returns the helper in the form that helper_mode names.
func (c *cycle) asks(h helper.Exec) helper.Helper {
	if c.cfg.HelperMode != config.HelperPersistent {
		return h
	}
	persistent := helper.NewPool(h)
	c.closers = append(c.closers, persistent.Close)
	return persistent
}

// lead takes the leadership for the length of the run.
func (c *cycle) lead() (err error) {
	if !c.cfg.LeaderElection || !c.options.alone || c.options.dryRun {
		return nil
	}
	c.lease, err = c.conn.Lead(c.leaseOptions())
	if errors.Is(err, network.ErrStandby) {
		return fmt.Errorf("%w: %w and holds the election `provisioner`; this host stands by", errNothing, err)
	}
	if err != nil {
		return err
	}
	c.closers = append(c.closers, c.lease.Release)
	c.conn.SetFence(fence(c.store, c.lease))
	return nil
}

func (c *cycle) close() {
	for i := len(c.closers) - 1; i >= 0; i-- {
		c.closers[i]()
	}
}

func notStarted(sum provision.Summary) string {
	return count(sum.Unhandled, "node") + " not started"
}

// verdict is what the run comes to: nil, or an error that exitCode knows.
func (c *cycle) verdict(sum provision.Summary, err error) error {
	failed, worked := countOutcomes(sum.Results)
	switch {
	case err != nil:
		return err
	case errors.Is(sum.StateErr, provision.ErrNetwork) && sum.Unhandled > 0:
		return fmt.Errorf("%w; %s", sum.StateErr, notStarted(sum))
	case sum.StateErr != nil:
		return sum.StateErr
	case sum.Interrupted && c.stop.Err() != nil:
		return fmt.Errorf("%w; %s", interruption(c.stop), notStarted(sum))
	case sum.Interrupted:
		return fmt.Errorf("%w; %s", errInterrupted, notStarted(sum))
	case failed > 0:
		return silent{fmt.Errorf("%w: %d of %d", errNodesFailed, failed, len(sum.Results))}
	case !c.options.alone && worked == 0 && len(sum.Results) > 0:
		return silent{fmt.Errorf("%w: every node was skipped", errNothing)}
	default:
		return nil
	}
}

// countOutcomes returns how many nodes failed, and how many were not skipped.
func countOutcomes(results []provision.Result) (failed, worked int) {
	for _, result := range results {
		if result.Outcome == provision.Failed {
			failed++
		}
		if result.Outcome != provision.Skipped {
			worked++
		}
	}
	return failed, worked
}
