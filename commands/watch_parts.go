package commands

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"choria-provision/config"
	"choria-provision/discovery"
	"choria-provision/internal/network"
	"choria-provision/output"
	"choria-provision/output/metrics"
	"choria-provision/provision"
	"choria-provision/provision/helper"

	"github.com/choria-io/go-choria/lifecycle"
	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/sirupsen/logrus"
)

// watch is the continuous mode with all its parts.
type watch struct {
	*cycle
	fail context.CancelCauseFunc // ends watch from within

	logger  *logrus.Logger
	metrics *metrics.Metrics
	tell    func(any)
	ledger  *ledger

	current atomic.Pointer[provision.Runner]
	leads   atomic.Bool
	term    atomic.Pointer[network.Lease] // of this leadership or the last, nil without an election
	pause   atomic.Pointer[error]         // why provisioning is paused, nil while it is not
	watcher *provision.Watcher
	trigger chan struct{}
}

func newWatch(c *cycle) (*watch, error) {
	w := &watch{cycle: c, trigger: make(chan struct{}, 1)}
	c.stop, w.fail = context.WithCancelCause(c.stop)
	ctx, cancel := context.WithCancel(context.Background())
	c.ctx = ctx
	unbind := context.AfterFunc(c.stop, func() { time.AfterFunc(watchBudget, cancel) })
	c.closers = append(c.closers, cancel, func() { unbind() }, func() { w.fail(nil) })

	redactor := output.NewRedactor(secretsOf(c.cfg))
	logger, closeLog, err := c.logger(c.cfg, c.Err, redactor)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errConfig, err)
	}
	c.closers = append(c.closers, func() { _ = closeLog() })
	c.seen = &seen{logger: logger, redactor: redactor}
	w.logger = spoken(logger, c.cfg)

	w.metrics = metrics.New(c.cfg.Site, version())
	w.ledger = newLedger(w)
	observers := []output.Observer{w.ledger, w.metrics}
	sinks := output.SelectSinks(c.cfg.LogFile, c.logFormat, false)
	observers = append(observers, output.NewLogEvents(logger, sinks.Log))
	if sinks.Lines {
		observers = append(observers, output.NewLineLog(c.Err, output.LineLogOptions{Quiet: true}))
	}
	w.tell = redactor.Emit(output.Emit(observers...))
	c.seen.tell = w.tell
	if err := w.metrics.Carry(c.store); err != nil {
		logger.Warnf("counters start again: %v", err)
	}
	return w, nil
}

// spoken is the logger for what watch has to say itself, at the configured
// level: go-choria's lines go to the one it was made from, which is quieter.
func spoken(logger *logrus.Logger, cfg *config.Config) *logrus.Logger {
	own := &logrus.Logger{Out: logger.Out, Formatter: logger.Formatter, Hooks: logger.Hooks, Level: logger.Level, ExitFunc: logger.ExitFunc}
	if level, err := logrus.ParseLevel(cfg.LogLevel); err == nil {
		own.SetLevel(level)
	}
	return own
}

// build puts the runner of a configuration in force.
func (w *watch) build(cfg *config.Config) error {
	reread := *w.cycle // others read w.cfg meanwhile, for what is fixed at the start
	reread.cfg = cfg
	runner, err := reread.runner()
	if err != nil {
		return err
	}
	w.closers = reread.closers // helpers that stay end with us
	w.seen.redactor.Add(secretsOf(cfg)...)
	w.loaded.Store(cfg)
	runner.May = w.may
	runner.Term = func() any { return w.term.Load() }
	if before := w.current.Load(); before != nil {
		runner.Announcements = before.Announcements // its nodes are at work still
		defer retire(before.Helper)
	}
	w.current.Store(runner)
	if w.watcher == nil {
		w.watcher = &provision.Watcher{
			Runner: w.runner, Queue: discovery.NewQueue(cfg.Interval.Duration, discovery.MaxQueue, w.tell),
			Discover: w.discover, Trigger: w.trigger, Cycled: w.ledger.turn,
		}
	}
	w.watcher.Queue.SetInterval(cfg.Interval.Duration)
	return nil
}

// retire lets helpers that stay go, which nobody asks any more but nodes that
// are at work already.
func retire(h helper.Helper) {
	if pool, ok := h.(*helper.Pool); ok {
		pool.Drain()
	}
}

// may is asked before every attempt of every call.
func (w *watch) may() error {
	if paused := w.pause.Load(); paused != nil {
		return newNotNow(*paused)
	}
	if !w.leads.Load() {
		return provision.ErrNotLeader
	}
	if term := w.term.Load(); term != nil && term.Err() != nil { // the loss is found out in a moment
		return fmt.Errorf("%w: %w", provision.ErrNotLeader, term.Err())
	}
	return checkClaims(w.store)
}

// paused brings the gauge up to date: a standby is paused too.
func (w *watch) paused() { w.metrics.SetPaused(w.may() != nil) }

// wake asks for a discovery now.
func (w *watch) wake() {
	select {
	case w.trigger <- struct{}{}:
	default: // one is asked for already
	}
}

// monitor serves metrics and health, when a port is configured.
func (w *watch) monitor() error {
	if w.cfg.MonitorPort == 0 {
		return nil
	}
	address := net.JoinHostPort(w.cfg.MonitorAddress, strconv.Itoa(w.cfg.MonitorPort))
	server, _, err := metrics.Serve(address, w.metrics, w.healthy)
	if err != nil {
		return err
	}
	w.closers = append(w.closers, func() { _ = server.Close() })
	return nil
}

// healthy is nil while watch can do its work, or stands by to do it.
func (w *watch) healthy() error {
	if w.conn == nil || !w.conn.Connected() {
		return errors.New("not connected to the broker")
	}
	if err := w.stateErr(); err != nil {
		return err
	}
	return w.runner().StateErr()
}

// stateErr is why it cannot be read whether provisioning is paused, which keeps
// watch from its work as a pause does.
func (w *watch) stateErr() error {
	if paused := w.pause.Load(); paused != nil && !errors.Is(*paused, errNothing) {
		return *paused
	}
	return nil
}

func (w *watch) hooks() network.Hooks {
	return network.Hooks{
		Lost: func(err error) {
			if w.stop.Err() == nil { // else it is we who close it
				w.logger.Warnf("the connection to the broker was lost: %v; it is tried again", err)
			}
		},
		Regained: func() {
			w.logger.Warn("the connection to the broker is there again")
			w.wake()
			time.AfterFunc(network.ReturnTime, w.wake) // nodes that come back say nothing
		},
		Refused: func(err error) { w.fail(fmt.Errorf("the broker does not let us in again: %w", err)) },
	}
}

// announce tells the fleet's operators that this instance starts.
func (w *watch) announce() error {
	event, err := lifecycle.New(lifecycle.Startup, lifecycle.Component("provisioner"), lifecycle.Version(version()),
		lifecycle.Identity(w.conn.Framework().Configuration().Identity))
	if err != nil {
		return fmt.Errorf("the startup event: %w", err)
	}
	subject, err := event.Target()
	if err != nil {
		return fmt.Errorf("the startup event: %w", err)
	}
	data, err := json.Marshal(event)
	if err != nil {
		return fmt.Errorf("the startup event: %w", err)
	}
	if err := w.conn.Publish(subject, data); err != nil {
		return fmt.Errorf("the startup event: %w", err)
	}
	return nil
}

// notify tells systemd, when it asked to be told.
func (w *watch) notify(state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		w.logger.Warnf("systemd was not told %s: %v", state, err)
	}
}

// end leaves counters and the last report.
func (w *watch) end() {
	if err := w.metrics.Save(w.store); err != nil {
		w.logger.Warnf("counters were not carried on: %v", err)
	}
}

// ledger keeps the report of what happened since the last discovery: last-run
// tells of that, and memory does not grow with the life of watch.
type ledger struct {
	w *watch

	mu      sync.Mutex
	report  *output.Report
	started time.Time
	nodes   int
	failed  int

	turns    int
	troubled bool // the turn before failed, or nodes in it did
}

func newLedger(w *watch) *ledger {
	l := &ledger{w: w}
	l.open()
	return l
}

func (l *ledger) open() {
	l.started, l.nodes, l.failed = time.Now(), 0, 0
	l.report = output.NewReport(output.RunInfo{ID: l.w.id, Command: "watch", Site: l.w.cfg.Site, Version: version(), Started: l.started})
}

// Observe implements output.Observer.
func (l *ledger) Observe(event any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.report.Observe(event)
	if done, ok := event.(provision.NodeDone); ok {
		l.nodes++
		if done.Outcome == provision.Failed {
			l.failed++
		}
	}
}

// turn saves the report and the counters, and begins anew. err is why the
// discovery that ends it failed.
func (l *ledger) turn(err error) {
	l.mu.Lock()
	report, started, nodes, failed := l.report, l.started, l.nodes, l.failed
	// A turn in which nothing happened would only hide the one before it.
	tells := l.turns == 0 || nodes > 0 || err != nil || l.troubled
	l.turns++
	l.troubled = failed > 0 || err != nil
	l.open()
	l.mu.Unlock()

	end := output.End{Finished: time.Now(), Err: err}
	switch {
	case err != nil:
		end.ExitCode = exitRun
	case failed > 0:
		end.ExitCode = exitNodes
	}
	doc := report.Finish(end)
	if tells {
		if err := l.w.remember(&doc); err != nil {
			l.w.logger.Warnf("%v", err)
		}
	}
	l.w.metrics.Finish(end, end.Finished.Sub(started))
	l.w.end()
	l.w.publish(nodes > 0)
}

// publish hands the metrics out, as a run of once does. Another host's metrics
// may be in the group of the Pushgateway: a watch that may do nothing, and in
// whose turn nothing happened either, leaves them alone.
func (w *watch) publish(worked bool) {
	cfg := w.runner().Config
	if cfg.MetricsTextfile != "" {
		if err := metrics.WriteTextfile(cfg.MetricsTextfile, w.metrics); err != nil {
			w.logger.Warnf("metrics_textfile: %v", err)
		}
	}
	if cfg.Pushgateway.URL == "" || !worked && w.may() != nil {
		return
	}
	if err := metrics.NewPusher(cfg.Pushgateway, cfg.Site, w.store.Host()).Push(context.Background(), w.metrics); err != nil {
		w.logger.Warnf("metrics were not pushed: %v", err)
	}
}

// fileState tells whether a file was changed since it was looked at.
type fileState struct {
	modified time.Time
	size     int64
}

func stateOf(path string) fileState {
	info, err := os.Stat(path)
	if err != nil {
		return fileState{}
	}
	return fileState{info.ModTime(), info.Size()}
}
