package commands

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"choria-provision/discovery"
	"choria-provision/internal/network"
	"choria-provision/output"
	"choria-provision/provision"

	"github.com/choria-io/fisk"
	"github.com/google/renameio/v2"
)

// watchBudget is how long nodes at work have to come to a safe step when watch
// is told to end.
const watchBudget = 30 * time.Second

type watchOptions struct {
	cycleOptions
	pid string
}

func (a *app) watch() {
	o := watchOptions{cycleOptions: cycleOptions{command: "watch", alone: true}}
	c := a.cli.Command("watch", "Provisions nodes as they come, until it is told to end")
	c.Flag("pid", "Write the process id to this file").PlaceHolder("FILE").StringVar(&o.pid)
	a.chooses(c, func(stop context.Context) error { return a.runWatch(stop, o) })
	c.Action(func(*fisk.ParseContext) error {
		a.reloads = !output.IsTerminal(a.Err) // at a terminal SIGHUP says that it has gone
		return nil
	})
}

// runWatch is the continuous mode: what it does to a node is what once does.
func (a *app) runWatch(stop context.Context, o watchOptions) error {
	w, err := a.prepareWatch(stop, o)
	if err != nil {
		return err
	}
	defer w.close()
	return w.run()
}

// prepareWatch takes what a watch must have before it brings anything up. The
// caller closes it.
func (a *app) prepareWatch(stop context.Context, o watchOptions) (w *watch, err error) {
	c, err := a.newCycle(stop, o.cycleOptions)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			c.close()
		}
	}()
	if err := c.store.CheckWritable(); err != nil {
		return nil, err
	}
	lock, err := lockRun(c.store)
	if err != nil {
		return nil, err
	}
	c.closers = append(c.closers, lock.Release)
	if o.pid != "" {
		remove, err := writePid(o.pid)
		if err != nil {
			return nil, err
		}
		c.closers = append(c.closers, remove)
	}
	return newWatch(c)
}

// writePid writes our process id and returns what takes the file away.
func writePid(path string) (func(), error) {
	if err := renameio.WriteFile(path, []byte(strconv.Itoa(os.Getpid())+"\n"), 0o644); err != nil {
		return nil, fmt.Errorf("%w: --pid: %w", errConfig, output.WithPath(err, path))
	}
	return func() { _ = os.Remove(path) }, nil
}

// run brings everything up in the order of reference section 9, works until
// the stop, and takes it down again.
func (w *watch) run() error {
	defer w.end()
	if err := w.monitor(); err != nil {
		return err
	}
	conn, err := w.connect(w.stop, w.cfg, w.seen.logger)
	if err != nil {
		return w.ending(err)
	}
	w.conn = conn
	conn.SetFence(fence(w.store, nil))
	w.closers = append(w.closers, conn.Close)
	conn.Follow(w.hooks())
	if err := w.build(w.cfg); err != nil {
		return err
	}
	if err := w.announce(); err != nil {
		return err
	}
	// The leadership is kept until the nodes at work have come to their end: else
	// the next leader would be at work on them too.
	leading, resign := context.WithCancel(context.WithoutCancel(w.stop))
	defer resign()
	campaign := w.campaign(leading)
	unlisten, err := discovery.Listen(conn, w.cfg.LifecycleComponent, w.watcher.Admit, w.tell)
	if err != nil {
		return err
	}
	defer unlisten()

	minding := w.mind()
	w.notify("READY=1")
	w.watcher.Run(w.ctx, w.stop)
	w.notify("STOPPING=1")
	<-minding
	resign()
	return w.ending(<-campaign)
}

// ending is why watch ends: a fault that ended it from within, or nothing worth
// an exit code, since to be told to end is how it ends.
func (w *watch) ending(err error) error {
	switch cause := context.Cause(w.stop); {
	case err != nil && w.stop.Err() == nil:
		return err
	case errors.As(cause, new(Interrupted)):
		return nil
	case cause != nil:
		return cause
	default:
		return err
	}
}

// campaign stands for the leadership until ctx ends when there is an election,
// and gives its end. An election that cannot be held ends watch with that cause.
func (w *watch) campaign(ctx context.Context) <-chan error {
	ended := make(chan error, 1)
	if !w.cfg.LeaderElection {
		w.leads.Store(true)
		beside := "as the only instance"
		if host := w.store.Host(); host != "" {
			beside = "as " + host + " beside the hosts that share its records"
		}
		w.logger.Infof("watching %s, connected to %s", beside, w.conn.Server())
		ended <- nil
		return ended
	}
	w.logger.Infof("standing by for the election `provisioner`, connected to %s", w.conn.Server())
	w.paused()
	terms := network.Terms{Won: w.won, Lost: w.lost}
	go func() {
		err := w.conn.Campaign(ctx, w.leaseOptions(), terms)
		if err != nil {
			w.fail(err)
		}
		ended <- err
	}()
	return ended
}

func (w *watch) won(lease *network.Lease) {
	w.term.Store(lease)
	w.conn.SetFence(fence(w.store, lease))
	w.leads.Store(true)
	w.paused()
	w.logger.Info("this instance leads: it provisions from now on")
	w.wake()
}

func (w *watch) lost(err error) {
	w.leads.Store(false)
	w.paused()
	dropped := w.watcher.Queue.Drop()
	w.logger.Warnf("%v: another instance may lead; %d waiting nodes are left to it, nodes at work stop at their next call", err, len(dropped))
}

// discover asks once who waits.
func (w *watch) discover(ctx context.Context) ([]discovery.Sighting, error) {
	seen, err := discovery.Poll(ctx, w.conn, w.runner().Config.DiscoveryTimeout.Duration, w.tell)
	if err != nil && ctx.Err() == nil {
		w.logger.Errorf("discovery failed: %v", withRemedy(err))
	}
	return seen, err
}

func (w *watch) runner() *provision.Runner { return w.current.Load() }
