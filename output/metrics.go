package output

import (
	"runtime"
	"strings"
	"sync"
	"time"

	"choria-provision/discovery"
	"choria-provision/provision"

	"github.com/prometheus/client_golang/prometheus"
)

// prefix is what every metric's name starts with; the peer's dashboards rely
// on it.
const prefix = "choria_provisioner_"

// rpcs are the actions whose series exist before the first call.
var rpcs = []string{
	"choria_provision#jwt", "choria_provision#gen25519", "choria_provision#gencsr",
	"choria_provision#configure", "choria_provision#restart", "choria_provision#shutdown",
	"choria_provision#release_update", "choria_provision#reprovision", "rpcutil#inventory",
}

// Metrics observes a run and counts it. Names and labels are the peer's, which
// docs/metrics.md lists; no label holds a node's name or an error's text.
// Counters and the sums and counts of summaries can be carried from run to run:
// see Carry and Save. It may be used from many goroutines.
type Metrics struct {
	saving sync.Mutex // one Save at a time: it adds what is not saved yet

	site   string
	ledger *ledger

	busy, queued, waiting, paused         prometheus.Gauge
	lastRun, lastSuccess, lastRunDuration prometheus.Gauge
	lastNodes                             *prometheus.GaugeVec

	mu     sync.Mutex                // guards the sets below
	atWork map[string]bool           // with a worker
	queue  map[string]bool           // admitted and not with a worker yet, at their first call too
	known  map[string]bool           // admitted and not done
	tally  map[provision.Outcome]int // nodes done since the last Finish
	work   work
}

// NewMetrics registers every metric with reg, at zero. Site is their label, and
// version that of this program.
func NewMetrics(reg prometheus.Registerer, site, version string) *Metrics {
	site = strings.ToValidUTF8(site, "\uFFFD") // a label must be
	m := &Metrics{
		site: site, ledger: newLedger(site),
		atWork: map[string]bool{}, queue: map[string]bool{}, known: map[string]bool{}, tally: map[provision.Outcome]int{},
	}
	reg.MustRegister(m.ledger)
	labelled := prometheus.WrapRegistererWith(prometheus.Labels{"site": site}, reg)
	gauge := func(name, help string) prometheus.Gauge {
		g := prometheus.NewGauge(prometheus.GaugeOpts{Name: prefix + name, Help: help})
		labelled.MustRegister(g)
		return g
	}
	m.busy = gauge("busy_workers", "How many nodes occupy a worker: from their first answer to their outcome")
	m.queued = gauge("work_queue_entries", "How many nodes wait for a worker")
	m.waiting = gauge("waiting_nodes", "How many nodes are known and not yet provisioned")
	m.paused = gauge("paused", "1 while provisioning is paused, otherwise 0")
	m.lastRun = gauge("last_run_timestamp_seconds", "When the last run ended, in seconds since 1970")
	m.lastSuccess = gauge("last_success_timestamp_seconds", "When the last run ended that could do its work, in seconds since 1970; failed nodes do not hold it back")
	m.lastRunDuration = gauge("run_duration_seconds", "How long the last run took")
	m.lastNodes = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: prefix + "nodes", Help: "Nodes of the last run by outcome"}, []string{"outcome"})
	labelled.MustRegister(m.lastNodes)
	m.showTally()

	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: prefix + "build_info", Help: "Always 1; its labels say what program this is",
		ConstLabels: prometheus.Labels{"version": version, "goversion": runtime.Version()},
	})
	build.Set(1)
	labelled.MustRegister(build)
	return m
}

// showTally makes what was counted by outcome the last run's, and begins anew.
func (m *Metrics) showTally() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, outcome := range provision.Outcomes {
		m.lastNodes.WithLabelValues(string(outcome)).Set(float64(m.tally[outcome]))
	}
	clear(m.tally)
}

// Observe implements Observer.
func (m *Metrics) Observe(event any) {
	switch e := event.(type) {
	case discovery.Cycle:
		m.cycled(e)
	case discovery.Admitted:
		m.admitted(e)
	case discovery.Dropped:
		m.Drop(e.Identities...)
	case provision.NodeAssigned:
		m.started(e.Node)
	case provision.Attempt:
		m.attempted(e)
	case provision.CallFailed:
		m.ledger.add(rpcErrors, e.Action, 1)
	case provision.HelperDone:
		m.ledger.observe(helperTime, "", e.Took)
		if e.Err != nil {
			m.ledger.add(helperErrors, "", 1)
		}
	case provision.AnswerRefused:
		m.ledger.add(helperErrors, "", 1)
	case provision.ShutdownAccepted:
		m.ledger.add(shutdownRequests, "", 1)
	case provision.NodeDone:
		m.done(e)
	}
}

func (m *Metrics) admitted(e discovery.Admitted) {
	switch e.Source {
	case discovery.ByBroadcast:
		m.ledger.add(discovered, "", 1)
	case discovery.ByEvent:
		m.ledger.add(eventDiscovered, "", 1)
	}
	m.place(func() { m.queue[e.Identity], m.known[e.Identity] = true, true })
}

func (m *Metrics) started(node string) {
	m.place(func() {
		delete(m.queue, node)
		m.atWork[node] = true
	})
}

func (m *Metrics) done(e provision.NodeDone) {
	switch e.Outcome {
	case provision.Provisioned:
		m.ledger.add(provisioned, "", 1)
	case provision.Failed:
		m.ledger.add(provisionErrors, "", 1)
	}
	m.mu.Lock()
	m.tally[e.Outcome]++
	m.mu.Unlock()
	m.Drop(e.Node)
}

// Drop forgets nodes that wait: those of an instance that lost its election, or
// that a run leaves out.
func (m *Metrics) Drop(nodes ...string) {
	m.place(func() {
		for _, node := range nodes {
			delete(m.queue, node)
			delete(m.atWork, node)
			delete(m.known, node)
		}
	})
}

// place changes where nodes are and sets the gauges by it.
func (m *Metrics) place(change func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change()
	m.busy.Set(float64(len(m.atWork)))
	m.queued.Set(float64(len(m.queue)))
	m.waiting.Set(float64(len(m.known)))
}

// exitRunFailed is the exit code of a run that could not be done.
const exitRunFailed = 1

// work is what a run could do since the last Finish.
type work struct {
	discovered, called, answered bool
}

// workDone reports whether the run could do its work, and begins anew.
func (m *Metrics) workDone() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	w := m.work
	m.work = work{}
	return w.answered || w.discovered && !w.called
}

func (m *Metrics) attempted(e provision.Attempt) {
	m.ledger.observe(rpcTime, e.Action, e.Took)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.work.called = true
	unheard := provision.Unheard(e.Err)
	m.work.answered = m.work.answered || !unheard
}

func (m *Metrics) cycled(e discovery.Cycle) {
	m.ledger.add(discoverCycles, "", 1)
	if e.Err != nil {
		m.ledger.add(discoveryErrors, "", 1)
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.work.discovered = true
}

// SetPaused sets whether provisioning is paused.
func (m *Metrics) SetPaused(paused bool) {
	if paused {
		m.paused.Set(1)
		return
	}
	m.paused.Set(0)
}

// Finish sets the metrics of the last run; for watch, which has no runs, that is
// the time between two discoveries. A run that could do its work moves the last
// success, whatever came of single nodes: it reached the broker and found out
// which nodes wait, or was answered by one, and if it called nodes not all of
// them were silent.
func (m *Metrics) Finish(end End, took time.Duration) {
	now := float64(end.Finished.UnixMilli()) / 1000
	m.lastRun.Set(now)
	m.lastRunDuration.Set(took.Seconds())
	m.showTally()
	if m.workDone() && end.ExitCode != exitRunFailed {
		m.ledger.succeed(now)
	}
	m.lastSuccess.Set(m.ledger.lastSuccess())
}
