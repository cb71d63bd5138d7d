package output

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// carried is a metric that goes on counting over runs.
type carried struct {
	name, help string
	byRPC      bool // has a label rpc
	summary    bool // a sum of seconds and a count, no quantiles
}

var (
	rpcTime          = carried{"rpc_time", "How long attempts of RPC calls took, in seconds", true, true}
	rpcErrors        = carried{"rpc_errors", "How many RPC calls failed for good", true, false}
	helperTime       = carried{"helper_time", "How long the helper took, in seconds", false, true}
	helperErrors     = carried{"helper_errors", "How often the helper failed", false, false}
	shutdownRequests = carried{"helper_shutdown_requests", "How many nodes were shut down because the helper asked for it", false, false}
	discovered       = carried{"discovered", "How many nodes were found by broadcast", false, false}
	eventDiscovered  = carried{"event_discovered", "How many nodes were found by their lifecycle events", false, false}
	discoverCycles   = carried{"discover_cycles", "How many discoveries were made", false, false}
	discoveryErrors  = carried{"discovery_errors", "How many discoveries failed", false, false}
	provisioned      = carried{"provisioned", "How many nodes were provisioned", false, false}
	provisionErrors  = carried{"provision_errors", "How many nodes could not be provisioned", false, false}
)

var allCarried = []carried{
	rpcTime, rpcErrors, helperTime, helperErrors, shutdownRequests,
	discovered, eventDiscovered, discoverCycles, discoveryErrors, provisioned, provisionErrors,
}

// seriesName is how a series is called in the saved counters.
func (c carried) seriesName(suffix, rpc string) string {
	name := prefix + c.name + suffix
	if c.byRPC {
		name += `{rpc="` + rpc + `"}`
	}
	return name
}

// ledger holds what is counted, as what earlier runs left plus what came since.
// client_golang's own counters cannot start at a sum and a count, nor tell what
// was added to them; as a collector it hands out the library's constant metrics.
type ledger struct {
	site string

	mu      sync.Mutex
	base    map[string]float64 // from earlier runs, by series
	since   map[string]float64 // counted since and not yet saved
	earlier float64            // the last success of earlier runs, seconds since 1970
	own     float64            // our own last success, 0 while there is none
	seen    map[string]bool    // values of the rpc label
}

func newLedger(site string) *ledger {
	l := &ledger{site: site, base: map[string]float64{}, since: map[string]float64{}, seen: map[string]bool{}}
	for _, rpc := range rpcs {
		l.seen[rpc] = true
	}
	return l
}

func (l *ledger) add(c carried, rpc string, n float64) { l.addTo(c, "", rpc, n) }

func (l *ledger) observe(c carried, rpc string, took time.Duration) {
	l.addTo(c, "_sum", rpc, max(0, took.Seconds()))
	l.addTo(c, "_count", rpc, 1)
}

func (l *ledger) addTo(c carried, suffix, rpc string, n float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.byRPC {
		l.seen[rpc] = true
	}
	l.since[c.seriesName(suffix, rpc)] += n
}

func (l *ledger) succeed(at float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.own = at
}

func (l *ledger) lastSuccess() float64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.own > 0 {
		return l.own
	}
	return l.earlier
}

// pending is what was counted and not saved.
func (l *ledger) pending() siteCounters {
	l.mu.Lock()
	defer l.mu.Unlock()
	return siteCounters{maps.Clone(l.since), l.own}
}

// rebase starts from sum; saved is the part of what was counted since that is
// in it already.
func (l *ledger) rebase(sum siteCounters, saved map[string]float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.base, l.earlier = maps.Clone(sum.Series), sum.LastSuccess
	for name, n := range saved {
		if l.since[name] -= n; l.since[name] <= 0 {
			delete(l.since, name)
		}
	}
}

func (l *ledger) value(c carried, suffix, rpc string) float64 {
	name := c.seriesName(suffix, rpc)
	return l.base[name] + l.since[name]
}

func (l *ledger) desc(c carried) *prometheus.Desc {
	var labels []string
	if c.byRPC {
		labels = []string{"rpc"}
	}
	return prometheus.NewDesc(prefix+c.name, c.help, labels, prometheus.Labels{"site": l.site})
}

// Describe implements prometheus.Collector.
func (l *ledger) Describe(out chan<- *prometheus.Desc) {
	for _, c := range allCarried {
		out <- l.desc(c)
	}
}

// Collect implements prometheus.Collector.
func (l *ledger) Collect(out chan<- prometheus.Metric) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range allCarried {
		if !c.byRPC {
			out <- l.metric(c, "")
			continue
		}
		for _, rpc := range slices.Sorted(maps.Keys(l.seen)) {
			out <- l.metric(c, rpc, rpc)
		}
	}
}

func (l *ledger) metric(c carried, rpc string, labels ...string) prometheus.Metric {
	if c.summary {
		count := uint64(l.value(c, "_count", rpc))
		return prometheus.MustNewConstSummary(l.desc(c), count, l.value(c, "_sum", rpc), nil, labels...)
	}
	return prometheus.MustNewConstMetric(l.desc(c), prometheus.CounterValue, l.value(c, "", rpc), labels...)
}
