package metrics

import (
	"context"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"choria-provision/config"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"go.uber.org/goleak"
)

// pushConfig is a gateway's configuration; its timeout ends no test that works.
func pushConfig(address string) config.Pushgateway {
	return config.Pushgateway{URL: address, Job: "choria_provision", Timeout: config.Duration{Duration: time.Minute}}
}

// received is what a gateway was sent.
type received struct {
	method, path string
	header       http.Header
	host         string
	families     map[string]*dto.MetricFamily
}

func listen(t *testing.T, answer http.HandlerFunc) (*httptest.Server, *[]received) {
	t.Helper()
	var all []received
	server := httptest.NewServer(record(&all, answer))
	t.Cleanup(server.Close)
	return server, &all
}

func record(all *[]received, answer http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got := received{method: r.Method, path: r.URL.EscapedPath(), header: r.Header, host: r.Host, families: map[string]*dto.MetricFamily{}}
		decoder := expfmt.NewDecoder(r.Body, expfmt.ResponseFormat(r.Header))
		for {
			var family dto.MetricFamily
			if decoder.Decode(&family) != nil {
				break
			}
			got.families[family.GetName()] = &family
		}
		*all = append(*all, got)
		answer(w, r)
	})
}

func accept(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) }

func TestPushReplacesTheGroup(t *testing.T) {
	t.Parallel()
	m := newTestMetrics("site1")
	for _, event := range countedRun() {
		m.Observe(event)
	}
	server, got := listen(t, accept)
	if err := NewPusher(pushConfig(server.URL), "site1", "").Push(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	if len(*got) != 1 || (*got)[0].method != http.MethodPut {
		t.Fatalf("got %v, want one PUT", *got)
	}
	want, _ := m.Gather()
	if len((*got)[0].families) != len(want) {
		t.Errorf("got %d metrics, want all %d", len((*got)[0].families), len(want))
	}
	for name, family := range (*got)[0].families {
		for _, metric := range family.Metric {
			for _, label := range metric.Label {
				if label.GetName() == "site" || label.GetName() == "job" {
					t.Errorf("%s: got label %s, want it in the group alone", name, label.GetName())
				}
			}
		}
	}
	if got := (*got)[0].families[prefix+"provisioned"].Metric[0].Counter.GetValue(); got != 2 {
		t.Errorf("got %v provisioned, want 2", got)
	}
	if valueOf(t, m, `provisioned{site="site1"}`) != "2" {
		t.Error("got metrics without their site after the push, want it still there")
	}
}

func base64Of(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }

func TestGroup(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, base, job, site string
		grouping              map[string]string
		want                  string
	}{
		{"ordinary", "", "choria_provision", "site1", nil, "/metrics/job/choria_provision/site/site1"},
		{"no site", "", "j", "", nil, "/metrics/job/j/site@base64/="},
		{"blanks", "", "j", "my site", nil, "/metrics/job/j/site@base64/" + base64Of("my site")},
		{"slashes", "", "a/b", "c/d", nil, "/metrics/job@base64/" + base64Of("a/b") + "/site@base64/" + base64Of("c/d")},
		{"not ASCII", "", "j", "Zürich 東京", nil, "/metrics/job/j/site@base64/" + base64Of("Zürich 東京")},
		{"a plus", "", "j", "a+b", nil, "/metrics/job/j/site@base64/" + base64Of("a+b")},
		{"dots", "", "..", ".", nil, "/metrics/job@base64/" + base64Of("..") + "/site@base64/" + base64Of(".")},
		{"percent", "", "j", "%2F?#", nil, "/metrics/job/j/site@base64/" + base64Of("%2F?#")},
		{"below a path", "/push/", "j", "s", nil, "/push/metrics/job/j/site/s"},
		{"more labels, in order", "", "j", "s", map[string]string{"zone": "z", "env": "e 1"}, "/metrics/job/j/env@base64/" + base64Of("e 1") + "/site/s/zone/z"},
		{"the site cannot be another", "", "j", "s", map[string]string{"site": "x"}, "/metrics/job/j/site/s"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			m := newTestMetrics(tt.site)
			server, got := listen(t, accept)
			cfg := pushConfig(server.URL + tt.base)
			cfg.Job, cfg.Grouping = tt.job, tt.grouping
			if err := NewPusher(cfg, tt.site, "").Push(t.Context(), m); err != nil {
				t.Fatal(err)
			}
			if len(*got) != 1 || (*got)[0].method != http.MethodPut || (*got)[0].path != tt.want {
				t.Errorf("got %+v, want one PUT of %s", *got, tt.want)
			}
		})
	}
}

func TestHostsThatShareRecordsHaveGroupsOfTheirOwn(t *testing.T) {
	t.Parallel()
	m := newTestMetrics("s")
	server, got := listen(t, accept)
	cfg := pushConfig(server.URL)
	cfg.Job, cfg.Grouping = "j", map[string]string{"host": "not this"}
	if err := NewPusher(cfg, "s", "host1.example.net").Push(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	if want := "/metrics/job/j/host/host1.example.net/site/s"; (*got)[0].path != want {
		t.Errorf("got %s, want %s", (*got)[0].path, want)
	}
}

func TestPushWithPasswordAndHeaders(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte("pässword\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	server, got := listen(t, func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "push" || password != "pässword" {
			http.Error(w, "who are you? "+user, http.StatusUnauthorized)
			return
		}
		accept(w, r)
	})
	m := newTestMetrics("s")
	cfg := pushConfig(server.URL)
	cfg.Headers = map[string]string{"x-tenant": "one", "Host": "gateway.example.net"}
	err := NewPusher(cfg, "s", "").Push(t.Context(), m)
	if err == nil || !strings.Contains(err.Error(), "401") {
		t.Errorf("got %v without a password, want 401", err)
	}
	cfg.Username, cfg.PasswordFile = "push", file
	if err := NewPusher(cfg, "s", "").Push(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	if last := (*got)[1]; last.header.Get("X-Tenant") != "one" || last.host != "gateway.example.net" {
		t.Errorf("got headers %v and host %s", last.header, last.host)
	}
	cfg.PasswordFile = file + ".gone"
	if err := NewPusher(cfg, "s", "").Push(t.Context(), m); err == nil || !strings.Contains(err.Error(), "pushgateway.password_file") {
		t.Errorf("got %v for a missing password file, want the key's name", err)
	}
}

func TestPushOverTLS(t *testing.T) {
	t.Parallel()
	var got []received
	server := httptest.NewUnstartedServer(record(&got, accept))
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // a handshake fails on purpose
	server.StartTLS()
	defer server.Close()
	m := newTestMetrics("s")
	cfg := pushConfig(server.URL)
	if err := NewPusher(cfg, "s", "").Push(t.Context(), m); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("got %v from a stranger, want an error about its certificate", err)
	}
	cfg.CA = filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(cfg.CA, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := NewPusher(cfg, "s", "").Push(t.Context(), m); err != nil || len(got) != 1 {
		t.Errorf("got %v and %d pushes with its CA, want one", err, len(got))
	}
}

func TestPushThatFailsIsAWarning(t *testing.T) {
	t.Parallel()
	closedServer := httptest.NewServer(http.NotFoundHandler())
	closedServer.Close()
	answers := func(handler http.HandlerFunc) string {
		server, _ := listen(t, handler)
		return server.URL
	}
	tests := []struct{ name, url, want string }{
		{"400", answers(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "bad \x1b[2J metric", 400) }), `it answered 400 Bad Request: bad \x1b[2J metric`},
		{"500", answers(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }), "it answered 500 Internal Server Error"},
		{"megabytes", answers(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(502)
			_, _ = io.WriteString(w, strings.Repeat("x", 1<<22))
		}), "502 Bad Gateway: " + strings.Repeat("x", 200) + "…"},
		{"a login page", answers(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			_, _ = io.WriteString(w, "<!DOCTYPE html><title>Sign in</title>")
		}), "it answered 200 OK with an HTML page, as a login or a proxy does: pushgateway.url leads to no Pushgateway: <!DOCTYPE html><title>Sign in"},
		{"a page that does not say so", answers(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/plain")
			_, _ = io.WriteString(w, "\n<html>hello")
		}), "it answered 200 OK with an HTML page"},
		{"elsewhere", answers(func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/other", http.StatusTemporaryRedirect)
		}), "it answered 307"},
		{"closed", closedServer.URL, "connection refused"},
		{"no URL", "http://", "pushgateway.url: it names no host"},
		{"nonsense as URL", "http://user:hush\x7f@x", "pushgateway.url: it cannot be parsed"},
		{"a password in the URL", strings.Replace(closedServer.URL, "//", "//user:hush@", 1), "connection refused"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			m := newTestMetrics("s")
			err := NewPusher(pushConfig(tt.url), "s", "").Push(t.Context(), m)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("got %v, want %s", err, tt.want)
			}
			if strings.Contains(err.Error(), "hush") {
				t.Errorf("got the password: %v", err)
			}
			checkPrintable(t, err.Error())
		})
	}
}

// TestSilentGatewayCostsTheTimeout has gateways that would keep a push for
// ever; that the test ends is that it does not.
func TestSilentGatewayCostsTheTimeout(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	m := newTestMetrics("s")
	for name, behave := range map[string]func(net.Conn){
		"says nothing":        func(net.Conn) {},
		"stops in its answer": func(c net.Conn) { _, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Le") },
		"never ends": func(c net.Conn) {
			_, _ = io.WriteString(c, "HTTP/1.1 500 Oops\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nagain\r\n")
		},
	} {
		t.Run(name, func(t *testing.T) {
			address := silent(t, behave)
			cfg := pushConfig("http://" + address)
			cfg.Timeout = config.Duration{Duration: 50 * time.Millisecond}
			err := NewPusher(cfg, "s", "").Push(context.Background(), m)
			if err == nil {
				t.Error("got no error, want one")
			}
			if name != "never ends" && !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v, want the timeout", err)
			}
		})
	}
}

// silent listens and behaves as told once a request arrives, until the test
// ends.
func silent(t *testing.T, behave func(net.Conn)) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Read(make([]byte, 1))
			behave(conn)
			_, _ = io.Copy(io.Discard, conn) // until the pusher gives up
			conn.Close()
		}
	}()
	t.Cleanup(func() {
		listener.Close()
		<-ended
	})
	return listener.Addr().String()
}

func TestPushEndsWithItsCaller(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	address := silent(t, func(net.Conn) { cancel() })
	m := newTestMetrics("s")
	if err := NewPusher(pushConfig("http://"+address), "s", "").Push(ctx, m); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
}

func TestGroupingLabelThatMetricsHave(t *testing.T) {
	t.Parallel()
	server, got := listen(t, accept)
	cfg := pushConfig(server.URL)
	cfg.Grouping = map[string]string{"outcome": "x"}
	m := newTestMetrics("s")
	err := NewPusher(cfg, "s", "").Push(t.Context(), m)
	if err == nil || len(*got) != 0 || !strings.Contains(fmt.Sprint(err), "outcome") {
		t.Errorf("got %v and %d pushes, want an error that names the label", err, len(*got))
	}
}
