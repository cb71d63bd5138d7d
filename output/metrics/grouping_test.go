package metrics

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"choria-provision/config"
	"choria-provision/provision/trust"
)

// A label that a metric has itself makes every push fail: the configuration is
// refused with it.
func TestGroupingMayNotRepeatAMetricsLabel(t *testing.T) {
	t.Parallel()
	m := newTestMetrics("site1")
	for _, event := range countedRun() {
		m.Observe(event)
	}
	families, err := m.Gather()
	if err != nil {
		t.Fatal(err)
	}
	labels := map[string]bool{"quantile": true, "le": true}
	for _, family := range families {
		for _, metric := range family.Metric {
			for _, label := range metric.Label {
				labels[label.GetName()] = true
			}
		}
	}
	if !labels["rpc"] || !labels["outcome"] || !labels["version"] {
		t.Fatalf("got labels %v, want those of all metrics", labels)
	}
	for label := range labels {
		path := filepath.Join(t.TempDir(), "provision.yaml")
		text := "helper: /bin/true\ntoken: x\npushgateway:\n  url: http://localhost:9091\n  grouping:\n    " + label + ": x\n"
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, _, err := config.Load(path, config.Overrides{Getenv: os.Getenv, Keys: trust.Keys(), StateDir: t.TempDir()})
		if err == nil || !strings.Contains(err.Error(), ":6:") || !strings.Contains(err.Error(), "pushgateway.grouping."+label) {
			t.Errorf("%s: got %v, want an error that points at it", label, err)
		}
	}
}
