package metrics

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"choria-provision/discovery"
	"choria-provision/output"
	"choria-provision/provision"
	"choria-provision/provision/helper"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/prometheus/common/expfmt"
	"go.uber.org/goleak"
)

// exposed is everything g gathers as Prometheus' text, the Go version aside.
func exposed(t *testing.T, g prometheus.Gatherer) string {
	t.Helper()
	families, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	for _, family := range families {
		if _, err := expfmt.MetricFamilyToText(&text, family); err != nil {
			t.Fatal(err)
		}
	}
	return strings.ReplaceAll(text.String(), runtime.Version(), "go0")
}

// valueOf is the rest of the line that starts with series.
func valueOf(t *testing.T, g prometheus.Gatherer, series string) string {
	t.Helper()
	for line := range strings.Lines(exposed(t, g)) {
		if value, ok := strings.CutPrefix(line, prefix+series+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	return "none"
}

func newTestMetrics(site string) *Metrics { return New(site, "1.2.3") }

func TestEveryMetricIsThereBeforeTheFirstNode(t *testing.T) {
	t.Parallel()
	m := newTestMetrics("site1")
	golden(t, "metrics-start.golden", exposed(t, m))
}

// countedRun is a run that moves every metric.
func countedRun() []any {
	events := append(smallRun(),
		discovery.Admitted{Sighting: discovery.Sighting{Identity: "web1.example.net", Source: discovery.ByBroadcast}},
		discovery.Admitted{Sighting: discovery.Sighting{Identity: "web2.example.net", Source: discovery.ByEvent}},
		discovery.Admitted{Sighting: discovery.Sighting{Identity: "web3.example.net", Source: discovery.ByName}},
		discovery.Cycle{Err: provision.ErrNetwork},
		provision.NodeStarted{Node: "web3.example.net"},
		provision.NodeAssigned{Node: "web3.example.net"},
		provision.ShutdownAccepted{Node: "gone.example.net"},
		provision.HelperDone{Took: 500 * time.Millisecond},
		provision.HelperDone{Took: 250 * time.Millisecond, Err: helper.ErrFailed},
	)
	for _, rpc := range rpcs {
		events = append(events, provision.Attempt{Action: rpc, Took: 2 * time.Second}, provision.Attempt{Action: rpc, Took: time.Second, Err: provision.ErrNoReply})
	}
	return append(events, provision.CallFailed{Action: "rpcutil#inventory", Err: provision.ErrNoReply})
}

func TestMetricsOfARun(t *testing.T) {
	t.Parallel()
	m := newTestMetrics("site1")
	for _, event := range countedRun() {
		m.Observe(event)
	}
	m.SetPaused(true)
	m.Finish(output.End{ExitCode: 0, Finished: began}, 12*time.Second)
	golden(t, "metrics-run.golden", exposed(t, m))
}

func TestRefusedAnswersCountAsHelperErrors(t *testing.T) {
	t.Parallel()
	m := newTestMetrics("s")
	m.Observe(provision.HelperDone{Node: "web1", Took: time.Second})
	m.Observe(provision.AnswerRefused{Node: "web1", Err: helper.ErrAnswer})
	if got := valueOf(t, m, `helper_errors{site="s"}`); got != "1" {
		t.Errorf("got %v helper errors, want 1", got)
	}
}

func TestGaugesFollowANode(t *testing.T) {
	t.Parallel()
	m := newTestMetrics("s")
	seen := discovery.Admitted{Sighting: discovery.Sighting{Identity: "web1", Source: discovery.ByBroadcast}}
	tests := []struct {
		name   string
		change func()
		want   string // waiting, in the queue, busy
	}{
		{"admitted", func() { m.Observe(seen) }, "1 1 0"},
		{"seen again", func() { m.Observe(seen) }, "1 1 0"},
		{"at its first call", func() { m.Observe(provision.NodeStarted{Node: "web1"}) }, "1 1 0"},
		{"with a worker", func() { m.Observe(provision.NodeAssigned{Node: "web1"}) }, "1 0 1"},
		{"done", func() {
			m.Observe(provision.NodeDone{Result: provision.Result{Node: "web1", Outcome: provision.Provisioned}})
		}, "0 0 0"},
		{"silent: never with a worker", func() {
			m.Observe(seen)
			m.Observe(provision.NodeStarted{Node: "web1"})
			m.Observe(provision.NodeDone{Result: provision.Result{Node: "web1", Outcome: provision.Failed}})
		}, "0 0 0"},
		{"skipped without a worker", func() {
			m.Observe(seen)
			m.Observe(provision.NodeDone{Result: provision.Result{Node: "web1", Outcome: provision.Skipped}})
		}, "0 0 0"},
		{"dropped", func() { m.Observe(seen); m.Drop("web1", "never seen") }, "0 0 0"},
	}
	for _, tt := range tests { // in order: each goes on from the one before
		tt.change()
		got := fmt.Sprint(valueOf(t, m, `waiting_nodes{site="s"}`), valueOf(t, m, `work_queue_entries{site="s"}`), valueOf(t, m, `busy_workers{site="s"}`))
		if want := strings.ReplaceAll(tt.want, " ", ""); got != want {
			t.Errorf("%s: got %s, want %s", tt.name, got, want)
		}
	}
}

// Attempts of calls, by what came of them.
var (
	answeredAttempt = provision.Attempt{}
	refusingAttempt = provision.Attempt{Err: &provision.Refused{Message: "no"}}
	silentAttempt   = provision.Attempt{Err: provision.ErrNoReply}
	goneAttempt     = provision.Attempt{Err: provision.ErrGone}
	cutOffAttempt   = provision.Attempt{Err: provision.ErrNetwork}
)

func TestARunThatCouldDoItsWorkMovesTheLastSuccess(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	tests := []struct {
		name    string
		events  []any
		code    int
		at      int64
		want    string
		wantRun string
	}{
		{"a broker that is away", nil, 1, 1000, "0", "1000"},
		{"no node waits", []any{discovery.Cycle{}}, 0, 2000, "2000", "2000"},
		{"a discovery that failed", []any{discovery.Cycle{Err: errors.New("no")}}, 1, 2500, "2000", "2500"},
		{"failed nodes beside good ones", []any{discovery.Cycle{Answers: 2}, silentAttempt, answeredAttempt}, 3, 3000, "3000", "3000"},
		{"a node that refuses", []any{discovery.Cycle{Answers: 1}, refusingAttempt}, 3, 3200, "3200", "3200"},
		{"nodes that are all silent", []any{discovery.Cycle{Answers: 1}, silentAttempt, goneAttempt, cutOffAttempt}, 3, 3500, "3200", "3500"},
		{"an interrupted run that worked", []any{discovery.Cycle{Answers: 1}, answeredAttempt}, 5, 4000, "4000", "4000"},
		{"one that was interrupted before", nil, 5, 4200, "4000", "4200"},
		{"a named node that answers", []any{answeredAttempt}, 0, 5000, "5000", "5000"},
		{"a state that failed in mid-run", []any{discovery.Cycle{Answers: 1}, answeredAttempt}, 1, 5500, "5000", "5500"},
		{"a success after the clock was put right", []any{discovery.Cycle{}}, 0, 4500, "4500", "4500"},
	}
	for _, tt := range tests { // in order: each is a process of its own
		m := newTestMetrics("s")
		if err := m.Carry(store); err != nil {
			t.Fatal(err)
		}
		for _, event := range tt.events {
			m.Observe(event)
		}
		m.Finish(output.End{ExitCode: tt.code, Finished: time.Unix(tt.at, 0)}, time.Second)
		if err := m.Save(store); err != nil {
			t.Fatal(err)
		}
		if got := valueOf(t, m, `last_success_timestamp_seconds{site="s"}`); got != tt.want {
			t.Errorf("%s: got last success %s, want %s", tt.name, got, tt.want)
		}
		if got := valueOf(t, m, `last_run_timestamp_seconds{site="s"}`); got != tt.wantRun {
			t.Errorf("%s: got last run %s, want %s", tt.name, got, tt.wantRun)
		}
	}
}

func TestNodesAreThoseOfTheLastRun(t *testing.T) {
	t.Parallel()
	m := newTestMetrics("s")
	for range 2 {
		for _, event := range smallRun() {
			m.Observe(event)
		}
		m.Finish(output.End{ExitCode: 3, Finished: began}, time.Second)
	}
	m.Observe(nodeDone("next.example.net", provision.Failed)) // of a run that goes on
	for _, outcome := range provision.Outcomes {
		if got := valueOf(t, m, fmt.Sprintf(`nodes{outcome="%s",site="s"}`, outcome)); got == "none" {
			t.Errorf("got no series for %s, want one", outcome)
		}
	}
	if got := valueOf(t, m, `nodes{outcome="failed",site="s"}`); got != "4" {
		t.Errorf("got %s failed, want those of the second run: 4", got)
	}
	if got := valueOf(t, m, `provision_errors{site="s"}`); got != "9" {
		t.Errorf("got %s errors counted, want those of all runs: 9", got)
	}
}

// TestMetricNames lets pass what the peer's names, which dashboards rely on,
// cannot mend.
func TestMetricNames(t *testing.T) {
	t.Parallel()
	m := newTestMetrics("s")
	problems, err := promlint.New(strings.NewReader(exposed(t, m))).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		peers := slices.ContainsFunc(persistentMetrics, func(m persistentMetric) bool { return prefix+m.name == p.Metric && !m.summary })
		if peers && p.Text == `counter metrics should have "_total" suffix` {
			continue
		}
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

func TestMetricsMayBeUsedFromAnywhere(t *testing.T) {
	t.Parallel()
	m := newTestMetrics("s")
	store := newStore(t)
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for _, event := range countedRun() {
				m.Observe(event)
			}
		})
		group.Go(func() { _, _ = m.Gather() })
		group.Go(func() {
			if err := m.Save(store); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if got := valueOf(t, m, `provisioned{site="s"}`); got != "8" {
		t.Errorf("got %s, want 8", got)
	}
}

func TestTextfile(t *testing.T) {
	t.Parallel()
	m := newTestMetrics("s")
	dir := t.TempDir()
	path := filepath.Join(dir, "provision.prom")
	if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := WriteTextfile(path, m); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(exposed(t, m), strings.ReplaceAll(string(text), runtime.Version(), "go0")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	info, _ := os.Stat(path)
	if got := info.Mode().Perm(); got != 0o644 {
		t.Errorf("got mode %o, want 644", got)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("got %d files, want one", len(entries))
	}
	if err := WriteTextfile(filepath.Join(dir, "no", "dir.prom"), m); err == nil {
		t.Error("got no error for a directory that is not there")
	}
}

func TestMetricsOverHTTP(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	m := newTestMetrics("s")
	server, address, err := Serve("127.0.0.1:0", m, func() error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Get("http://" + address.String() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	text, _ := io.ReadAll(answer.Body)
	answer.Body.Close()
	for _, want := range []string{`choria_provisioner_provisioned{site="s"} 0`, "go_goroutines ", "go_memstats_heap_inuse_bytes ", "process_open_fds ", "process_resident_memory_bytes "} {
		if !strings.Contains(string(text), want) {
			t.Errorf("got %s, want %s in it", text, want)
		}
	}
	if pushed := exposed(t, m); strings.Contains(pushed, "go_goroutines") || strings.Contains(pushed, "process_") {
		t.Errorf("got %s, want nothing of a process that a push or a textfile outlives", pushed)
	}
	if _, _, err := Serve(address.String(), m, nil); err == nil || !strings.Contains(err.Error(), "monitor_port") {
		t.Errorf("got %v for a port in use, want an error that names the key", err)
	}
	if err := server.Close(); err != nil {
		t.Error(err)
	}
}

func TestDocumentedMetricsAreTheOnesThereAre(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	var documented []string
	table, _, _ := strings.Cut(string(text), "\n## ")
	for line := range strings.Lines(table) {
		if rest, ok := strings.CutPrefix(line, "| `"); ok {
			name, _, _ := strings.Cut(rest, "`")
			documented = append(documented, prefix+name)
		}
	}
	m := newTestMetrics("s")
	families, err := m.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var exist []string
	for _, family := range families {
		exist = append(exist, family.GetName())
	}
	slices.Sort(documented)
	if diff := cmp.Diff(exist, documented); diff != "" {
		t.Errorf("docs/metrics.md (-there are +documented):\n%s", diff)
	}
}
