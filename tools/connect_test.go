package tools

import (
	"slices"
	"strings"
	"testing"
)

func TestConfigCheckFindsTheGatewayAndPushesNothing(t *testing.T) {
	t.Parallel()
	gateway := startGateway(t)
	address, requests := watched(t, gateway)
	s := startSite(t, 1)
	s.use(t, settings{push: map[string]string{"url": address}})
	before := string(exposed(t, gateway))
	r := s.run(t, "config", "check", "--connect")
	if want := "pushgateway: asking " + address + "/metrics/job/choria_provision/site/lab: it answers; nothing was pushed\n"; r.code != 0 || !strings.Contains(r.stdout, want) {
		t.Errorf("got exit code %d, want 0 and %q\n%s%s", r.code, want, r.stdout, r.stderr)
	}
	if got := requests(); !slices.Equal(got, []string{"GET /metrics/job/choria_provision/site/lab"}) {
		t.Errorf("got requests %q, want one GET", got)
	}
	if after := string(exposed(t, gateway)); strings.Contains(after, "choria_provisioner") || strings.Contains(before, "choria_provisioner") {
		t.Errorf("something was pushed:\n%s", after)
	}

	closed := startGateway(t, guard(t, "prov", "pa55"))
	s.use(t, settings{push: map[string]string{"url": closed}})
	if r := s.run(t, "config", "check", "--connect"); r.code != 2 || !strings.Contains(r.stdout, "pushgateway: error: ") || !strings.Contains(r.stdout, "401 Unauthorized") {
		t.Errorf("without the password: got exit code %d, want 2 and the answer\n%s%s", r.code, r.stdout, r.stderr)
	}
}
