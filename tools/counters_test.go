package tools

import (
	"strconv"
	"testing"
)

func TestIncreaseIsWhatRunsProvisioned(t *testing.T) {
	t.Parallel()
	gateway := startGateway(t)
	s := startSite(t, 4)
	s.use(t, settings{push: map[string]string{"url": gateway}})
	p := newPrometheus(t)

	s.idle(t) // the series start at zero before the first node
	p.scrape(t, exposed(t, gateway), 3)
	for _, limit := range []int{1, 2, 1} {
		if r := s.run(t, "once", "--limit", strconv.Itoa(limit)); r.code != 0 {
			t.Fatalf("got exit code %d\n%s", r.code, r.stderr)
		}
		p.scrape(t, exposed(t, gateway), 3)
	}

	tests := []struct {
		name, expr string
		want       float64
	}{
		{"all runs", `increase(choria_provisioner_provisioned[30m])`, 4},
		{"the counter", `choria_provisioner_provisioned{site="lab",job="choria_provision"}`, 4},
		{"cycles", `choria_provisioner_discover_cycles`, 4},
		{"no resets", `resets(choria_provisioner_provisioned[30m])`, 0},
		{"no failures", `increase(choria_provisioner_provision_errors[30m])`, 0},
		{"restarts of all runs", `choria_provisioner_rpc_time_count{rpc="choria_provision#restart"}`, 4},
		{"the helper of all runs", `increase(choria_provisioner_helper_time_count[30m])`, 4},
		{"the last run alone", `choria_provisioner_nodes{outcome="provisioned"}`, 1},
		{"a gauge comes back to zero", `choria_provisioner_busy_workers`, 0},
		{"one series for the site, whoever ran", `count(choria_provisioner_provisioned)`, 1},
	}
	for _, tt := range tests {
		if got := p.value(t, tt.expr); got != tt.want {
			t.Errorf("%s: %s: got %v, want %v", tt.name, tt.expr, got, tt.want)
		}
	}
}

func TestFailedNodesDoNotHoldTheLastSuccessBack(t *testing.T) {
	t.Parallel()
	gateway := startGateway(t)
	s := startSite(t, 2)
	push := map[string]string{"url": gateway}
	s.use(t, settings{push: push})
	p := newPrometheus(t)
	if r := s.run(t, "once", "--limit", "1"); r.code != 0 {
		t.Fatalf("got exit code %d\n%s", r.code, r.stderr)
	}
	p.scrape(t, exposed(t, gateway), 1)
	success := p.value(t, `choria_provisioner_last_success_timestamp_seconds`)
	if success == 0 || success != p.value(t, `choria_provisioner_last_run_timestamp_seconds`) {
		t.Errorf("got a last success at %v, want the time of the run", success)
	}

	s.use(t, settings{push: push, helper: "/bin/false"})
	if r := s.run(t, "once"); r.code != 3 {
		t.Fatalf("got exit code %d, want 3\n%s", r.code, r.stderr)
	}
	p.scrape(t, exposed(t, gateway), 1)
	if got := p.value(t, `choria_provisioner_last_success_timestamp_seconds`); got <= success {
		t.Errorf("after a run with a failed node: got a last success at %v, want one after %v", got, success)
	}
	for expr, want := range map[string]float64{
		`choria_provisioner_nodes{outcome="failed"}`: 1,
		`choria_provisioner_provision_errors`:        1,
		`choria_provisioner_helper_errors`:           1,
		`choria_provisioner_provisioned`:             1,
		`count(choria_provisioner_last_run_timestamp_seconds == choria_provisioner_last_success_timestamp_seconds)`: 1,
	} {
		if got := p.value(t, expr); got != want {
			t.Errorf("%s: got %v, want %v", expr, got, want)
		}
	}
}
