package tools

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/model"
	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/rules"
)

var alertsFile = filepath.Join("..", "docs", "alerts.yaml")

// alerts are docs/alerts.yaml in force.
type alerts struct {
	*prometheus
	groups map[string]*rules.Group
}

func newAlerts(t *testing.T) *alerts {
	t.Helper()
	p := newPrometheus(t)
	manager := rules.NewManager(&rules.ManagerOptions{
		Context: t.Context(), Queryable: p.db, AppendableV2: p.db, QueryFunc: rules.EngineQueryFunc(p.engine, p.db),
		NotifyFunc: func(context.Context, string, ...*rules.Alert) {},
	})
	groups, errs := manager.LoadGroups(scrapeInterval, labels.EmptyLabels(), "", nil, false, alertsFile)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	return &alerts{p, groups}
}

// pass lets time pass, with a scrape of what is exposed at each moment and an
// evaluation of the rules a minute.
func (a *alerts) pass(t *testing.T, span time.Duration, exposed func(now time.Time) string) {
	t.Helper()
	for range int(span / scrapeInterval) {
		a.scrape(t, []byte(exposed(a.now.Add(scrapeInterval))), 1)
		for _, group := range a.groups {
			group.Eval(t.Context(), a.now)
			for _, rule := range group.Rules() {
				if err := rule.LastError(); err != nil {
					t.Fatalf("%s: %v", rule.Name(), err)
				}
			}
		}
	}
}

// firing are the alerts that fire, with their summaries.
func (a *alerts) firing() map[string][]string {
	found := map[string][]string{}
	for _, group := range a.groups {
		for _, rule := range group.AlertingRules() {
			for _, alert := range rule.ActiveAlerts() {
				if alert.State == rules.StateFiring {
					found[rule.Name()] = append(found[rule.Name()], alert.Annotations.Get("summary"))
				}
			}
		}
	}
	return found
}

// state is what a site pushed, told as times before now.
type state struct {
	site, host       string
	run, success     time.Duration // negative: never
	push, refused    time.Duration
	failed, provided int
	paused           []bool // by instance
}

func (s state) text(now time.Time) string {
	at := func(ago time.Duration) float64 {
		if ago < 0 {
			return 0
		}
		return float64(now.Add(-ago).UnixMilli()) / 1000
	}
	var b strings.Builder
	write := func(name, more string, value any) {
		if s.host != "" {
			more += fmt.Sprintf(",host=%q", s.host)
		}
		fmt.Fprintf(&b, "%s{job=\"choria_provision\",site=%q%s} %v\n", name, s.site, more, value)
	}
	write("choria_provisioner_last_run_timestamp_seconds", "", at(s.run))
	write("choria_provisioner_last_success_timestamp_seconds", "", at(s.success))
	write("choria_provisioner_nodes", `,outcome="failed"`, s.failed)
	write("choria_provisioner_nodes", `,outcome="provisioned"`, s.provided)
	write("push_time_seconds", "", at(s.push))
	write("push_failure_time_seconds", "", at(s.refused))
	for i, paused := range s.paused {
		value := 0
		if paused {
			value = 1
		}
		write("choria_provisioner_paused", fmt.Sprintf(`,instance="host%d"`, i), value)
	}
	return b.String()
}

func TestAlertsFireWhenTheyShould(t *testing.T) {
	t.Parallel()
	healthy := state{site: "eu", run: time.Minute, success: time.Minute, push: time.Minute, refused: -1, provided: 3, paused: []bool{false}}
	with := func(change func(*state)) func(time.Time) string {
		s := healthy
		change(&s)
		return s.text
	}
	hosts := func(change func(second *state)) func(time.Time) string {
		first, second := healthy, healthy
		first.host, second.host = "host1", "host2"
		change(&second)
		return func(now time.Time) string { return first.text(now) + second.text(now) }
	}
	tests := []struct {
		name    string
		span    time.Duration
		exposed func(time.Time) string
		want    map[string]string // alert to a part of its summary
	}{
		{"all is well", 6 * time.Hour, healthy.text, nil},
		{"the last success is two hours old", time.Hour, with(func(s *state) { s.success = 2 * time.Hour }), map[string]string{"ProvisionLastSuccessTooOld": `Site "eu": the last successful run is 2h 0m 0s old`}},
		{"a success half an hour ago", 2 * time.Hour, with(func(s *state) { s.success = 30 * time.Minute }), nil},
		{"there never was a success", time.Hour, with(func(s *state) { s.success = -1 }), map[string]string{"ProvisionLastSuccessTooOld": "no run ever succeeded"}},
		{"nodes fail for an hour", time.Hour, with(func(s *state) { s.failed = 7 }), map[string]string{"ProvisionNodesFail": "7 nodes failed"}},
		{"nodes failed for ten minutes", 10 * time.Minute, with(func(s *state) { s.failed = 7 }), nil},
		{"paused for five hours", 5 * time.Hour, with(func(s *state) { s.paused = []bool{true} }), map[string]string{"ProvisionPausedTooLong": "paused for more than four hours"}},
		{"paused for an hour", time.Hour, with(func(s *state) { s.paused = []bool{true} }), nil},
		{"one of two stands by", 6 * time.Hour, with(func(s *state) { s.paused = []bool{true, false} }), nil},
		{"both are paused", 6 * time.Hour, with(func(s *state) { s.paused = []bool{true, true} }), map[string]string{"ProvisionPausedTooLong": `"eu"`}},
		{"nobody pushes", time.Hour, with(func(s *state) { s.push = 45 * time.Minute }), map[string]string{"ProvisionPushStale": "45m 0s old"}},
		{"the gateway refuses", time.Hour, with(func(s *state) { s.refused = 0 }), map[string]string{"ProvisionPushRefused": `"eu"`}},
		{"it refused once, long ago", time.Hour, with(func(s *state) { s.refused = time.Hour }), nil},
		{"no metrics at all", time.Hour, func(time.Time) string { return "up 1\n" }, map[string]string{"ProvisionMetricsMissing": "no provisioner"}},
		{"one of two hosts stands by", 6 * time.Hour, hosts(func(s *state) { s.run, s.success, s.push = 5*time.Hour, 5*time.Hour, 5*time.Hour }), nil},
		{"nodes fail on one of two hosts", time.Hour, hosts(func(s *state) { s.failed = 7 }), map[string]string{"ProvisionNodesFail": "7 nodes failed in the last run on host2,"}},
		{"the gateway refuses one of two hosts", time.Hour, hosts(func(s *state) { s.refused = 0 }), map[string]string{"ProvisionPushRefused": "what host2 pushes"}},
		{"a site without a name", time.Hour, with(func(s *state) { s.site, s.failed = "", 1 }), map[string]string{"ProvisionNodesFail": `Site ""`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			a := newAlerts(t)
			a.pass(t, tt.span, tt.exposed)
			got := a.firing()
			if diff := cmp.Diff(slices.Sorted(maps.Keys(tt.want)), slices.Sorted(maps.Keys(got))); diff != "" {
				t.Errorf("other alerts fire (-want +got):\n%s", diff)
			}
			for name, part := range tt.want {
				if len(got[name]) != 1 || !strings.Contains(got[name][0], part) {
					t.Errorf("%s: got %q, want one that says %q", name, got[name], part)
				}
			}
		})
	}
}

func TestAlertsEndWithTheirCause(t *testing.T) {
	t.Parallel()
	healthy := state{site: "eu", refused: -1, paused: []bool{false}}
	sick := state{site: "eu", run: 3 * time.Hour, success: 3 * time.Hour, push: 3 * time.Hour, failed: 1, paused: []bool{true}}
	a := newAlerts(t)
	a.pass(t, 5*time.Hour, sick.text)
	if got := a.firing(); len(got) != 5 {
		t.Errorf("got %v, want every alert but the one for missing metrics", got)
	}
	a.pass(t, 2*scrapeInterval, healthy.text)
	if got := a.firing(); len(got) != 0 {
		t.Errorf("when all is well again: got %v", got)
	}
}

func TestWhatTheLabPushesIsWell(t *testing.T) {
	t.Parallel()
	gateway := startGateway(t)
	s := startSite(t, 1)
	s.use(t, settings{push: map[string]string{"url": gateway}})
	if r := s.run(t, "once"); r.code != 0 {
		t.Fatalf("got exit code %d\n%s", r.code, r.stderr)
	}
	text := string(exposed(t, gateway))
	a := newAlerts(t)
	a.pass(t, 25*time.Minute, func(time.Time) string { return text })
	if got := a.firing(); len(got) != 0 {
		t.Errorf("after a good run: got %v", got)
	}
	a.pass(t, 2*time.Hour, func(time.Time) string { return text }) // the timer stopped
	want := []string{"ProvisionLastSuccessTooOld", "ProvisionPushStale"}
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(a.firing()))); diff != "" {
		t.Errorf("when no run follows, other alerts fire (-want +got):\n%s", diff)
	}
}

func TestTheRulesAreWellFormed(t *testing.T) {
	t.Parallel()
	groups, errs := rulefmt.ParseFile(alertsFile, false, model.LegacyValidation, parser.NewParser(parser.Options{}), promslog.NewNopLogger())
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	documented, err := os.ReadFile(filepath.Join("..", "docs", "metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, group := range groups.Groups {
		for _, rule := range group.Rules {
			if !strings.Contains(string(documented), "| `"+rule.Alert+"` |") {
				t.Errorf("%s: got no line in docs/metrics.md", rule.Alert)
			}
			if rule.Annotations["summary"] == "" || rule.Annotations["description"] == "" || rule.Labels["severity"] == "" {
				t.Errorf("%s: got no summary, description or severity", rule.Alert)
			}
		}
	}
}
