package commands

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"choria-provision/internal/lab"
)

// connections runs config check --connect as the lab's first host and returns
// what it found, by name.
func connections(t *testing.T, l *lab.Lab) (ran, map[string]connection) {
	t.Helper()
	r := runOn(t, l, 0, "config", "check", "--connect", "--output", "json")
	var v verdict
	if err := json.Unmarshal([]byte(r.stdout), &v); err != nil {
		t.Fatalf("%v\n%s%s", err, r.stdout, r.stderr)
	}
	found := map[string]connection{}
	for _, c := range v.Connections {
		found[c.Name] = c
	}
	return r, found
}

// pushOnly answers as a Pushgateway does to a method that it does not know, and
// notes what it was asked.
func pushOnly(t *testing.T, asked *[]string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*asked = append(*asked, r.Method)
		http.Error(w, "no", http.StatusMethodNotAllowed)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func TestConfigCheckConnects(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		enrollment string
		hosts      int
		want       []string
	}{
		{lab.Insecure, 0, []string{"broker", "account", "collective", "pushgateway"}},
		{lab.PKI, 1, []string{"broker", "account", "collective", "records", "pushgateway"}},
		{lab.Issuer, 1, []string{"broker", "account", "collective", "election", "records", "pushgateway"}},
	} {
		t.Run(tt.enrollment, func(t *testing.T) {
			t.Parallel()
			l := startLab(t, lab.Options{Nodes: 1, Enrollment: tt.enrollment, Hosts: tt.hosts})
			var gateway []string
			if err := l.SetConfig(map[string]any{
				"leader_election": slices.Contains(tt.want, "election"), "discovery_timeout": "2s",
				"pushgateway": map[string]any{"url": pushOnly(t, &gateway)},
			}); err != nil {
				t.Fatal(err)
			}
			r := runOn(t, l, 0, "config", "check", "--connect")
			if r.code != 0 || r.stderr != "" {
				t.Errorf("got exit code %d, want 0\n%s%s", r.code, r.stdout, r.stderr)
			}
			lines := strings.Split(strings.TrimSpace(r.stdout), "\n")
			for i, name := range tt.want {
				if i >= len(lines) || !strings.HasPrefix(lines[i], name+": ") {
					t.Fatalf("got\n%s\nwant %v", r.stdout, tt.want)
				}
			}
			if want := fmt.Sprintf("connections: %d of %d work", len(tt.want), len(tt.want)); lines[len(lines)-1] != want {
				t.Errorf("got %q at the end, want %q", lines[len(lines)-1], want)
			}
			if !strings.Contains(r.stdout, "1 waiting node answered") {
				t.Errorf("got\n%s\nwant the node counted", r.stdout)
			}
			if got := asked(t, l, l.NodeNames()[0]); len(got) != 0 {
				t.Errorf("the node was asked for %v", got)
			}
			if !slices.Equal(gateway, []string{"GET"}) {
				t.Errorf("the gateway was asked %v, want one GET", gateway)
			}
		})
	}
}

func removeElections(t *testing.T, l *lab.Lab) {
	t.Helper()
	removeBucketsNamed(t, l, "CHORIA_LEADER_ELECTION")
}

// TestConfigCheckNamesWhatCannotBeUsed has a row for each way in which a
// connection of a correct configuration fails.
func TestConfigCheckNamesWhatCannotBeUsed(t *testing.T) {
	t.Parallel()
	keys := func(pairs ...any) map[string]any {
		all := map[string]any{"connect_timeout": "4s"} // what a mute gateway and silence take
		for pair := range slices.Chunk(pairs, 2) {
			all[pair[0].(string)] = pair[1]
		}
		return all
	}
	push := func(url string) map[string]any { return keys("pushgateway", map[string]any{"url": url}) }
	elsewhere := func(t *testing.T, l *lab.Lab) {
		if err := l.SetChoria(map[string]string{"plugin.choria.middleware_hosts": "nats://127.0.0.1:1"}); err != nil {
			t.Fatal(err)
		}
	}
	asIs := func(*testing.T, *lab.Lab) {}
	verifier := changeRecords("plugin.security.choria.token_file", "DIR/keys/verifier.jwt", "plugin.security.choria.seed_file", "DIR/keys/verifier.seed")
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
	}))
	t.Cleanup(web.Close)
	closed := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "who are you", http.StatusUnauthorized)
	}))
	t.Cleanup(closed.Close)
	mute, err := net.Listen("tcp", "127.0.0.1:0") // accepts connections and says nothing
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = mute.Close() })
	for _, tt := range []struct {
		name, enrollment string
		keys             map[string]any
		spoil            func(*testing.T, *lab.Lab)
		failed, cause    string
		text, hint       string
	}{
		{"no broker", lab.PKI, keys(), elsewhere, "broker", "unreachable", "nats://127.0.0.1:1: no broker answers", "check that the broker runs"},
		{"no password", lab.PKI, keys("broker_provisioning_password", nil), asIs, "account", "production", "production account", "broker_provisioning_password"},
		{"a wrong password", lab.PKI, keys("broker_provisioning_password", "wrong"), asIs, "broker", "unauthorized", "refuses our credentials", "broker_provisioning_password"},
		{"no buckets", lab.PKI, keys(), removeBuckets, "records", "streams", "choria kv add CHORIA_PROVISION_RECORDS --history 1 --no-direct", ""},
		{"no permission for Streams", lab.Issuer, keys(), verifier, "records", "streams", "the permission Streams User", ""},
		{"no election", lab.PKI, keys("leader_election", true), removeElections, "election", "election", "CHORIA_LEADER_ELECTION", ""},
		{"no gateway", lab.PKI, push("http://127.0.0.1:1"), asIs, "pushgateway", "gateway_away", "connection refused", "check that the Pushgateway runs"},
		{"a mute gateway", lab.PKI, push("http://" + mute.Addr().String()), asIs, "pushgateway", "gateway_away", "no answer within 4s", "check that the Pushgateway runs"},
		{"a web site", lab.PKI, push(web.URL), asIs, "pushgateway", "no_gateway", "HTML page", "pushgateway.url"},
		{"a gateway with a password", lab.PKI, push(closed.URL), asIs, "pushgateway", "gateway_refuses", "401 Unauthorized", "pushgateway.username"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			l := startLab(t, lab.Options{Nodes: 1, Enrollment: tt.enrollment, Hosts: 1})
			if err := l.SetConfig(tt.keys); err != nil {
				t.Fatal(err)
			}
			tt.spoil(t, l)
			r, found := connections(t, l)
			if r.code != 2 {
				t.Errorf("got exit code %d, want 2\n%s%s", r.code, r.stdout, r.stderr)
			}
			for name, c := range found {
				if c.OK != (name != tt.failed) {
					t.Errorf("%s: got %+v, want only %s to fail", name, c, tt.failed)
				}
			}
			c := found[tt.failed]
			if c.Cause != tt.cause || !strings.Contains(c.Text, tt.text) || !strings.Contains(c.Hint, tt.hint) {
				t.Errorf("got %+v, want cause %q, text %q, hint %q", c, tt.cause, tt.text, tt.hint)
			}
			text := runOn(t, l, 0, "config", "check", "--connect")
			if text.code != 2 || !strings.Contains(text.stdout, "\n"+tt.failed+": error: ") && !strings.HasPrefix(text.stdout, tt.failed+": error: ") || !strings.Contains(text.stdout, "1 of ") {
				t.Errorf("got exit code %d and\n%s%s", text.code, text.stdout, text.stderr)
			}
			if tt.hint != "" && !strings.Contains(text.stdout, "\n  hint: ") {
				t.Errorf("got no hint:\n%s", text.stdout)
			}
		})
	}
}
