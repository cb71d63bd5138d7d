package tools

import (
	"fmt"
	"slices"
	"testing"
)

func TestEverySiteHasAGroupOfItsOwn(t *testing.T) {
	t.Parallel()
	gateway := startGateway(t)
	address, requests := watched(t, gateway)
	sites := []string{"", "lab", "eu west/1", "a+b", "東京 ü", "..", ".", "/", "100%", `quo"te\`, "job", "a=b&c"}
	s := startSite(t, 1)
	for _, name := range sites {
		s.use(t, settings{site: name, noSite: name == "", push: map[string]string{"url": address}})
		s.idle(t)
	}
	puts := requests()
	if len(puts) != len(sites) {
		t.Fatalf("got requests %q, want one for each site", puts)
	}
	for _, name := range sites {
		if got := pushedSites(t, gateway, name); got != 1 {
			t.Errorf("site %q: got %d series, want one\n%s", name, got, puts)
		}
	}

	order := slices.Clone(sites)
	for i, name := range order {
		deleteGroup(t, gateway, puts[i])
		for j, other := range order {
			want := 1
			if j <= i {
				want = 0
			}
			if got := pushedSites(t, gateway, other); got != want {
				t.Errorf("with the group of %q deleted: site %q has %d series, want %d", name, other, got, want)
			}
		}
	}
}

// pushedSites counts the series of a site's last run that a scrape finds, with
// Prometheus' own reading of labels.
func pushedSites(t *testing.T, gateway, name string) int {
	t.Helper()
	p := newPrometheus(t)
	p.scrape(t, exposed(t, gateway), 1)
	return len(p.query(t, fmt.Sprintf("choria_provisioner_last_run_timestamp_seconds{site=%q,job=\"choria_provision\"}", name)))
}
