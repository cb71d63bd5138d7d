package tools

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"golang.org/x/crypto/bcrypt"
)

var listening = regexp.MustCompile(`address=(127\.0\.0\.1:\d+)`)

// startGateway runs a Pushgateway on a free port of loopback.
func startGateway(t *testing.T, args ...string) string {
	t.Helper()
	line := start(t, "Listening on", "pushgateway", append(args, "--web.listen-address=127.0.0.1:0")...)
	found := listening.FindStringSubmatch(line)
	if found == nil {
		t.Fatalf("got %q, want the gateway's address", line)
	}
	return "http://" + found[1]
}

// guard makes the web configuration of a gateway that wants a password.
func guard(t *testing.T, user, password string) string {
	t.Helper()
	hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "web.yaml")
	if err := os.WriteFile(path, []byte("basic_auth_users:\n  "+user+": "+string(hash)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return "--web.config.file=" + path
}

// exposed is what Prometheus would scrape.
func exposed(t *testing.T, gateway string) []byte {
	t.Helper()
	answer, err := http.Get(gateway + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("got %s, %v", answer.Status, err)
	}
	return text
}

// watched puts a proxy before a gateway that notes what it was asked for.
func watched(t *testing.T, gateway string) (address string, requests func() []string) {
	t.Helper()
	target, err := url.Parse(gateway)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }}
	var mu sync.Mutex
	var seen []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		seen = append(seen, r.Method+" "+r.URL.EscapedPath())
		mu.Unlock()
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return append([]string(nil), seen...)
	}
}

// deleteGroup removes the group of a PUT that was seen.
func deleteGroup(t *testing.T, gateway, put string) {
	t.Helper()
	path, ok := strings.CutPrefix(put, "PUT ")
	if !ok {
		t.Fatalf("got %q, want a PUT", put)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, gateway+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusAccepted {
		t.Fatalf("deleting %s: got %s", path, answer.Status)
	}
}
