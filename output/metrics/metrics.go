// Package metrics counts what a run does and brings the figures to Prometheus:
// over HTTP, to a Pushgateway or to a file for node_exporter. Counters are kept
// in the state, so that they grow from run to run. The package knows the events
// of discovery and provision, and nothing of what a terminal or a report shows.
package metrics

import (
	"runtime"
	"strings"
	"sync"
	"time"

	"choria-provision/discovery"
	"choria-provision/output"
	"choria-provision/provision"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// prefix begins the name of every metric. It is that of the older provisioner,
// whose dashboards keep working.
const prefix = "choria_provisioner_"

// rpcs are the actions whose series exist before the first call.
var rpcs = []string{
	"choria_provision#jwt", "choria_provision#gen25519", "choria_provision#gencsr",
	"choria_provision#configure", "choria_provision#restart", "choria_provision#shutdown",
	"choria_provision#release_update", "choria_provision#reprovision", "rpcutil#inventory",
}

// Metrics observes a run and counts it. docs/metrics.md lists names and labels;
// no label holds an identity or the text of an error, which would make series
// without limit. Carry and Save keep counters, and the sums and counts of
// summaries, from run to run. Metrics is a prometheus.Gatherer and may be used
// from many goroutines.
type Metrics struct {
	site     string
	registry *prometheus.Registry
	counters *counters

	saving sync.Mutex // one Save at a time: two would add the same counts twice

	busy, queued, waiting, paused         prometheus.Gauge
	lastRun, lastSuccess, lastRunDuration prometheus.Gauge
	lastNodes                             *prometheus.GaugeVec

	mu       sync.Mutex                // guards what follows
	assigned map[string]bool           // with a worker
	queue    map[string]bool           // admitted and not with a worker yet, also while at the first call
	known    map[string]bool           // admitted and not done
	outcomes map[provision.Outcome]int // of nodes done since the last Finish
	reached  reached
}

// New returns metrics at zero in a registry of their own. Site is the label site
// of every metric, version the version of this program.
func New(site, version string) *Metrics {
	site = strings.ToValidUTF8(site, "\uFFFD") // a label must be valid
	m := &Metrics{
		site: site, registry: prometheus.NewRegistry(), counters: newCounters(site),
		assigned: map[string]bool{}, queue: map[string]bool{}, known: map[string]bool{}, outcomes: map[provision.Outcome]int{},
	}
	m.registry.MustRegister(m.counters)
	m.registerGauges(version)
	m.showOutcomes()
	return m
}

func (m *Metrics) registerGauges(version string) {
	labelled := prometheus.WrapRegistererWith(prometheus.Labels{"site": m.site}, m.registry)
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

	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: prefix + "build_info", Help: "Always 1; its labels say what program this is",
		ConstLabels: prometheus.Labels{"version": version, "goversion": runtime.Version()},
	})
	build.Set(1)
	labelled.MustRegister(build)
}

// Gather implements prometheus.Gatherer.
func (m *Metrics) Gather() ([]*dto.MetricFamily, error) { return m.registry.Gather() }

// showOutcomes publishes the outcomes counted since the last Finish as those of
// the last run, and starts to count anew.
func (m *Metrics) showOutcomes() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, outcome := range provision.Outcomes {
		m.lastNodes.WithLabelValues(string(outcome)).Set(float64(m.outcomes[outcome]))
	}
	clear(m.outcomes)
}

// Observe implements output.Observer.
func (m *Metrics) Observe(event any) {
	switch e := event.(type) {
	case discovery.Cycle:
		m.discoveryDone(e)
	case discovery.Admitted:
		m.admitted(e)
	case discovery.Dropped:
		m.Drop(e.Identities...)
	case provision.NodeAssigned:
		m.nodeAssigned(e.Node)
	case provision.Attempt:
		m.attempted(e)
	case provision.CallFailed:
		m.counters.add(rpcErrors, e.Action, 1)
	case provision.HelperDone:
		m.counters.observe(helperTime, "", e.Took)
		if e.Err != nil {
			m.counters.add(helperErrors, "", 1)
		}
	case provision.AnswerRefused:
		m.counters.add(helperErrors, "", 1)
	case provision.ShutdownAccepted:
		m.counters.add(shutdownRequests, "", 1)
	case provision.NodeDone:
		m.nodeDone(e)
	}
}

func (m *Metrics) admitted(e discovery.Admitted) {
	switch e.Source {
	case discovery.ByBroadcast:
		m.counters.add(discovered, "", 1)
	case discovery.ByEvent:
		m.counters.add(eventDiscovered, "", 1)
	}
	m.updateNodes(func() { m.queue[e.Identity], m.known[e.Identity] = true, true })
}

func (m *Metrics) nodeAssigned(identity string) {
	m.updateNodes(func() {
		delete(m.queue, identity)
		m.assigned[identity] = true
	})
}

func (m *Metrics) nodeDone(e provision.NodeDone) {
	switch e.Outcome {
	case provision.Provisioned:
		m.counters.add(provisioned, "", 1)
	case provision.Failed:
		m.counters.add(provisionErrors, "", 1)
	}
	m.mu.Lock()
	m.outcomes[e.Outcome]++
	m.mu.Unlock()
	m.Drop(e.Node)
}

// Drop removes nodes from the gauges of waiting nodes: those of an instance that
// lost its election, or those that a run leaves out.
func (m *Metrics) Drop(identities ...string) {
	m.updateNodes(func() {
		for _, identity := range identities {
			delete(m.queue, identity)
			delete(m.assigned, identity)
			delete(m.known, identity)
		}
	})
}

// updateNodes runs change with the sets of nodes locked and sets their gauges.
func (m *Metrics) updateNodes(change func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change()
	m.busy.Set(float64(len(m.assigned)))
	m.queued.Set(float64(len(m.queue)))
	m.waiting.Set(float64(len(m.known)))
}

// exitRunFailed is the exit code of a run that could not be done.
const exitRunFailed = 1

// reached records how far a run came since the last Finish.
type reached struct {
	discovered, called, answered bool
}

// takeWorked reports whether the run could do its work, and starts anew.
func (m *Metrics) takeWorked() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.reached
	m.reached = reached{}
	return r.answered || r.discovered && !r.called
}

func (m *Metrics) attempted(e provision.Attempt) {
	m.counters.observe(rpcTime, e.Action, e.Took)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reached.called = true
	unheard := provision.Unheard(e.Err)
	m.reached.answered = m.reached.answered || !unheard
}

func (m *Metrics) discoveryDone(e discovery.Cycle) {
	m.counters.add(discoverCycles, "", 1)
	if e.Err != nil {
		m.counters.add(discoveryErrors, "", 1)
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reached.discovered = true
}

// SetPaused sets whether provisioning is paused.
func (m *Metrics) SetPaused(paused bool) {
	if paused {
		m.paused.Set(1)
		return
	}
	m.paused.Set(0)
}

// Finish sets the metrics of the last run; in watch a run is the time between
// two discoveries. A run that could do its work moves the last success, whatever
// the outcomes of its nodes: it reached the broker, found the waiting nodes or
// was answered by one, and if it called nodes, at least one answered.
func (m *Metrics) Finish(end output.End, took time.Duration) {
	now := float64(end.Finished.UnixMilli()) / 1000
	m.lastRun.Set(now)
	m.lastRunDuration.Set(took.Seconds())
	m.showOutcomes()
	if m.takeWorked() && end.ExitCode != exitRunFailed {
		m.counters.setSuccess(now)
	}
	m.lastSuccess.Set(m.counters.lastSuccess())
}
