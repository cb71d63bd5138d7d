package config

import (
	"runtime"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// The peer falls back to its four patterns when the list is empty. To deny
// nothing instead would let a node ask for a privileged certificate.
func TestEmptyDenyListDeniesTheDefaults(t *testing.T) {
	t.Parallel()
	want := sources(Default().CertDenyList)
	for _, text := range []string{"cert_deny_list: []", "cert_deny_list:", "cert_deny_list: ~"} {
		cfg, _ := load(t, "helper: DIR/helper\ntoken: x\nfeatures: {pki: true}\n"+text+"\n")
		if diff := cmp.Diff(want, sources(cfg.CertDenyList)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
}

// A short validity is honoured: a year in its place would keep a server's
// access open for longer than anybody asked for.
func TestShortServerJWTValidityIsHonoured(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{"1h": time.Hour, "30m": 30 * time.Minute, "61m": 61 * time.Minute} {
		cfg, warnings := load(t, "helper: DIR/helper\ntoken: x\nserver_jwt_validity: "+text+"\n")
		if cfg.ServerJWTValidity.Duration != want {
			t.Errorf("%s: got %s, want %s", text, cfg.ServerJWTValidity, want)
		}
		if short := want <= time.Hour; (len(warnings) == 1) != short {
			t.Errorf("%s: got %v, want a warning: %v", text, warnings, short)
		}
	}
}

func TestEmptyAndZeroMeanThePeersDefaults(t *testing.T) {
	t.Parallel()
	cfg, warnings := load(t, "helper: DIR/helper\ntoken: x\nworkers: 0\nlifecycle_component: ''\nloglevel: ''\ninterval: ''\nlogfile: ''\nserver_jwt_validity: ''\n")
	got := []any{cfg.Workers, cfg.LifecycleComponent, cfg.LogLevel, cfg.Interval, cfg.LogFile, cfg.ServerJWTValidity}
	want := []any{runtime.NumCPU(), "provision_mode_server", "info", Duration{time.Minute}, "", Duration{365 * day}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(warnings) > 0 {
		t.Errorf("got %v, want nothing to say", warnings)
	}
}
