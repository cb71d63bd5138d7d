package metrics

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"choria-provision/output"

	"github.com/prometheus/client_golang/prometheus"
)

// persistentMetric is a metric whose counts are kept in the state, so that they
// grow from run to run.
type persistentMetric struct {
	name, help string
	byRPC      bool // has a label rpc
	summary    bool // a sum of seconds and a count, no quantiles
}

var (
	rpcTime          = persistentMetric{"rpc_time", "How long attempts of RPC calls took, in seconds", true, true}
	rpcErrors        = persistentMetric{"rpc_errors", "How many RPC calls failed for good", true, false}
	helperTime       = persistentMetric{"helper_time", "How long the helper took, in seconds", false, true}
	helperErrors     = persistentMetric{"helper_errors", "How often the helper failed", false, false}
	shutdownRequests = persistentMetric{"helper_shutdown_requests", "How many nodes were shut down because the helper asked for it", false, false}
	discovered       = persistentMetric{"discovered", "How many nodes were found by broadcast", false, false}
	eventDiscovered  = persistentMetric{"event_discovered", "How many nodes were found by their lifecycle events", false, false}
	discoverCycles   = persistentMetric{"discover_cycles", "How many discoveries were made", false, false}
	discoveryErrors  = persistentMetric{"discovery_errors", "How many discoveries failed", false, false}
	provisioned      = persistentMetric{"provisioned", "How many nodes were provisioned", false, false}
	provisionErrors  = persistentMetric{"provision_errors", "How many nodes could not be provisioned", false, false}
)

var persistentMetrics = []persistentMetric{
	rpcTime, rpcErrors, helperTime, helperErrors, shutdownRequests,
	discovered, eventDiscovered, discoverCycles, discoveryErrors, provisioned, provisionErrors,
}

// seriesName is the key of a series in the saved counters.
func (p persistentMetric) seriesName(suffix, rpc string) string {
	name := prefix + p.name + suffix
	if p.byRPC {
		name += `{rpc="` + rpc + `"}`
	}
	return name
}

// counters holds each count in two parts: what earlier runs saved, and what was
// counted since. client_golang's counters can neither start at a sum and a count
// nor report what was added to them, so counters is a collector of constant
// metrics. It may be used from many goroutines.
type counters struct {
	site string

	mu           sync.Mutex
	saved        map[string]float64 // by series, from earlier runs
	counted      map[string]float64 // by series, not saved yet
	savedSuccess float64            // the last success of earlier runs, in seconds since 1970
	success      float64            // the last success of this process, 0 while there is none
	rpcs         map[string]bool    // values of the label rpc
}

func newCounters(site string) *counters {
	c := &counters{site: site, saved: map[string]float64{}, counted: map[string]float64{}, rpcs: map[string]bool{}}
	for _, rpc := range rpcs {
		c.rpcs[rpc] = true
	}
	return c
}

func (c *counters) add(p persistentMetric, rpc string, n float64) { c.addTo(p, "", rpc, n) }

func (c *counters) observe(p persistentMetric, rpc string, took time.Duration) {
	c.addTo(p, "_sum", rpc, max(0, took.Seconds()))
	c.addTo(p, "_count", rpc, 1)
}

func (c *counters) addTo(p persistentMetric, suffix, rpc string, n float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p.byRPC {
		c.rpcs[rpc] = true
	}
	c.counted[p.seriesName(suffix, rpc)] += n
}

// setSuccess sets the last success of this process, in seconds since 1970.
func (c *counters) setSuccess(at float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.success = at
}

func (c *counters) lastSuccess() float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.success > 0 {
		return c.success
	}
	return c.savedSuccess
}

// unsaved returns what was counted and is not in the state yet.
func (c *counters) unsaved() siteCounters {
	c.mu.Lock()
	defer c.mu.Unlock()
	return siteCounters{maps.Clone(c.counted), c.success}
}

// setBase makes sum the saved part of the counts and takes from the unsaved part
// what sum includes of it. Counts that arrived during the save stay.
func (c *counters) setBase(sum siteCounters, included map[string]float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.saved, c.savedSuccess = maps.Clone(sum.Series), sum.LastSuccess
	for name, n := range included {
		if c.counted[name] -= n; c.counted[name] <= 0 {
			delete(c.counted, name)
		}
	}
}

func (c *counters) value(p persistentMetric, suffix, rpc string) float64 {
	name := p.seriesName(suffix, rpc)
	return c.saved[name] + c.counted[name]
}

func (c *counters) desc(p persistentMetric) *prometheus.Desc {
	var labels []string
	if p.byRPC {
		labels = []string{"rpc"}
	}
	return prometheus.NewDesc(prefix+p.name, p.help, labels, prometheus.Labels{"site": c.site})
}

// Describe implements prometheus.Collector.
func (c *counters) Describe(out chan<- *prometheus.Desc) {
	for _, p := range persistentMetrics {
		out <- c.desc(p)
	}
}

// Collect implements prometheus.Collector.
func (c *counters) Collect(out chan<- prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range persistentMetrics {
		if !p.byRPC {
			out <- c.metric(p, "")
			continue
		}
		for _, rpc := range slices.Sorted(maps.Keys(c.rpcs)) {
			out <- c.metric(p, rpc, rpc)
		}
	}
}

func (c *counters) metric(p persistentMetric, rpc string, labels ...string) prometheus.Metric {
	if p.summary {
		count := uint64(c.value(p, "_count", rpc))
		return prometheus.MustNewConstSummary(c.desc(p), count, c.value(p, "_sum", rpc), nil, labels...)
	}
	return prometheus.MustNewConstMetric(c.desc(p), prometheus.CounterValue, c.value(p, "", rpc), labels...)
}

// countersVersion is the schema of the saved counters.
const countersVersion = 1

// ErrCounters means that the saved counters cannot be understood.
var ErrCounters = errors.New("the saved counters cannot be read")

// CounterStore keeps the counters from run to run.
type CounterStore interface {
	// Counters returns what was stored last, nil before the first time.
	Counters() ([]byte, error)
	// UpdateCounters stores what edit makes of what is stored, in one
	// transaction; edit may run more than once.
	UpdateCounters(edit func(stored []byte) ([]byte, error)) error
}

// savedCounters is the form of the counters in the state. Each site has its own,
// so that a renamed site starts at zero.
type savedCounters struct {
	SchemaVersion int                     `json:"schema_version"`
	Sites         map[string]siteCounters `json:"sites"`
}

type siteCounters struct {
	Series      map[string]float64 `json:"series"`       // by name and labels
	LastSuccess float64            `json:"last_success"` // seconds since 1970, 0: never
}

// Carry starts the counters at what earlier runs saved. When that cannot be read
// or understood, they start at zero and the error is a warning for the operator.
// Carry stores nothing.
func (m *Metrics) Carry(store CounterStore) error {
	text, err := store.Counters()
	if err != nil {
		return fmt.Errorf("counting starts at zero: %w", err)
	}
	saved, err := parseCounters(text)
	if err != nil {
		return fmt.Errorf("counting starts at zero: %w", err)
	}
	m.counters.setBase(saved.Sites[m.site], nil)
	m.lastSuccess.Set(m.counters.lastSuccess())
	return nil
}

// Save adds what was counted since Carry, or since the last Save, to the stored
// counters. From then on the metrics show the sum, which includes what other
// processes counted in the meantime. Stored counters that cannot be understood,
// as after a return to an older version, are left as they are; ErrCounters is
// then a warning for the operator.
func (m *Metrics) Save(store CounterStore) error {
	m.saving.Lock()
	defer m.saving.Unlock()
	var sum, added siteCounters
	err := store.UpdateCounters(func(stored []byte) ([]byte, error) {
		saved, err := parseCounters(stored)
		if err != nil {
			return nil, err
		}
		added = m.counters.unsaved()
		sum = merge(saved.Sites[m.site], added)
		return json.Marshal(saved.with(m.site, sum))
	})
	if err != nil {
		return fmt.Errorf("counters: %w", err)
	}
	m.counters.setBase(sum, added.Series)
	m.lastSuccess.Set(m.counters.lastSuccess())
	return nil
}

func (s savedCounters) with(site string, sum siteCounters) savedCounters {
	sites := maps.Clone(s.Sites)
	if sites == nil {
		sites = map[string]siteCounters{}
	}
	sites[site] = sum
	return savedCounters{countersVersion, sites}
}

// merge returns the sum of both. A success of this process replaces the saved
// one even when that is later: an earlier run may have had a wrong clock.
func merge(saved, added siteCounters) siteCounters {
	sum := siteCounters{Series: maps.Clone(saved.Series), LastSuccess: saved.LastSuccess}
	if sum.Series == nil {
		sum.Series = map[string]float64{}
	}
	for name, n := range added.Series {
		sum.Series[name] += n
	}
	if added.LastSuccess > 0 {
		sum.LastSuccess = added.LastSuccess
	}
	return sum
}

func parseCounters(text []byte) (s savedCounters, err error) {
	if text == nil {
		return s, nil
	}
	if err := json.Unmarshal(text, &s); err != nil {
		return savedCounters{}, fmt.Errorf("%w: %w", ErrCounters, err)
	}
	return s, s.check()
}

func (s savedCounters) check() error {
	if s.SchemaVersion != countersVersion {
		return fmt.Errorf("%w: schema version %d is not %d", ErrCounters, s.SchemaVersion, countersVersion)
	}
	for _, site := range s.Sites {
		for name, n := range site.Series {
			if n < 0 || math.IsInf(n, 0) || math.IsNaN(n) {
				return fmt.Errorf("%w: %s is %v", ErrCounters, output.Escape(name), n)
			}
		}
		if site.LastSuccess < 0 {
			return fmt.Errorf("%w: last_success is %v", ErrCounters, site.LastSuccess)
		}
	}
	return nil
}
