package commands

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"syscall"
	"testing"

	"choria-provision/internal/lab"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
)

// gateway is a Pushgateway that keeps the last push to each group.
type gateway struct {
	*httptest.Server
	mu     sync.Mutex
	groups map[string]string // path to exposition
	faults []error
}

func startGateway(t *testing.T) *gateway {
	t.Helper()
	g := &gateway{groups: map[string]string{}}
	g.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		text, err := exposition(r)
		g.mu.Lock()
		defer g.mu.Unlock()
		if err != nil {
			g.faults = append(g.faults, err)
		}
		g.groups[r.URL.Path] = text
	}))
	t.Cleanup(g.Close)
	return g
}

func exposition(r *http.Request) (string, error) {
	var text strings.Builder
	for decoder := expfmt.NewDecoder(r.Body, expfmt.ResponseFormat(r.Header)); ; {
		family := &dto.MetricFamily{}
		switch err := decoder.Decode(family); {
		case errors.Is(err, io.EOF):
			return text.String(), nil
		case err != nil:
			return "", err
		}
		if _, err := expfmt.MetricFamilyToText(&text, family); err != nil {
			return "", err
		}
	}
}

// value is that of the first series of a metric in a group, empty when the
// group was not pushed.
func (g *gateway) value(group, name string) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return valueIn(g.groups[group], "choria_provisioner_"+name)
}

func TestWatchPushesAfterEachDiscoveryAndAtItsEnd(t *testing.T) {
	t.Parallel()
	const group = "/metrics/job/choria_provision/site/lab"
	l := startLab(t, lab.Options{Nodes: 1, Enrollment: lab.Insecure})
	g, port := startGateway(t), freePort(t)
	if err := l.SetConfig(map[string]any{"interval": "1h", "monitor_port": port, "pushgateway": map[string]any{"url": g.URL}}); err != nil {
		t.Fatal(err)
	}
	w := startWatch(t, l)
	await(t, "a push after the discovery", func() bool { return g.value(group, "discover_cycles") == "1" })
	await(t, "the node in service", func() bool { return metric(t, port, "provisioned") == "1" })
	if code := w.signal(syscall.SIGTERM); code != 0 {
		t.Errorf("got exit code %d, want 0", code)
	}
	if got := g.value(group, "provisioned"); got != "1" || len(g.groups) != 1 || len(g.faults) > 0 {
		t.Errorf("got %q provisioned in %d groups and faults %v, want 1 in one group", got, len(g.groups), g.faults)
	}

	// A watch that may do nothing leaves what others pushed alone.
	if r := runIn(t, l, "pause"); r.code != 0 {
		t.Fatal(r.stderr)
	}
	g.mu.Lock()
	g.groups[group] = "another's"
	g.mu.Unlock()
	w = startWatch(t, l)
	await(t, "the pause", func() bool { return metric(t, port, "paused") == "1" })
	if code := w.signal(syscall.SIGTERM); code != 0 {
		t.Errorf("got exit code %d, want 0", code)
	}
	if got := g.groups[group]; got != "another's" {
		t.Errorf("a paused watch pushed:\n%s", got)
	}
}
