package tools

import (
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// silent accepts connections and never answers; met tells that one came.
func silent(t *testing.T) (address string, met <-chan struct{}) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	came, ended := make(chan struct{}, 16), make(chan struct{})
	var held []net.Conn
	go func() {
		defer close(ended)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			held = append(held, conn)
			came <- struct{}{}
		}
	}()
	t.Cleanup(func() {
		listener.Close()
		<-ended
		for _, conn := range held {
			conn.Close()
		}
	})
	return "http://" + listener.Addr().String(), came
}

func closed(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return "http://" + listener.Addr().String()
}

func answering(t *testing.T, status int, text string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, text, status) }))
	t.Cleanup(server.Close)
	return server.URL
}

// warnings are the lines that tell of a push that did not work.
func warnings(stderr string) (found []string) {
	for line := range strings.Lines(stderr) {
		if strings.Contains(line, "metrics were not pushed") {
			found = append(found, line)
		}
	}
	return found
}

func TestABrokenGatewayCostsAWarning(t *testing.T) {
	t.Parallel()
	s := startSite(t, 1)
	mute, met := silent(t)
	tests := []struct{ name, url, want string }{
		{"closed", closed(t), "refused"},
		{"silent", mute, "no answer within 1s"},
		{"answers 400", answering(t, http.StatusBadRequest, "pushed metrics are invalid"), "400 Bad Request: pushed metrics are invalid"},
		{"answers 500", answering(t, http.StatusInternalServerError, "disk\x1b[2J full"), `disk\\x1b[2J full`},
		{"wants a password", startGateway(t, guard(t, "provision", "s3cret-word")), "401 Unauthorized"},
	}
	for _, tt := range tests {
		set := settings{push: map[string]string{"url": tt.url, "timeout": "1s"}}
		for _, exit := range []int{0, 3} {
			if exit == 3 {
				set.helper = "/bin/false"
			}
			s.use(t, set)
			args := []string{"once"}
			if exit == 0 {
				args = append(args, "--match", "nobody.example.net")
			}
			r := s.run(t, args...)
			if r.code != exit {
				t.Errorf("%s: got exit code %d, want %d as without a gateway\n%s", tt.name, r.code, exit, r.stderr)
			}
			if got := warnings(r.stderr); len(got) != 1 || !strings.Contains(got[0], tt.want) {
				t.Errorf("%s: got warnings %q in\n%s\nwant one with %q", tt.name, got, r.stderr, tt.want)
			}
		}
	}
	for range 2 { // of both runs, which ended though nobody ever answered
		select {
		case <-met:
		default:
			t.Fatal("the silent gateway was not asked")
		}
	}
}

func TestAPasswordOpensTheGateway(t *testing.T) {
	t.Parallel()
	gateway := startGateway(t, guard(t, "provision", "s3cret-word"))
	password := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(password, []byte("s3cret-word\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := startSite(t, 1)
	s.use(t, settings{push: map[string]string{"url": gateway, "username": "provision", "password_file": password}})
	if r := s.run(t, "once", "--match", "nobody.example.net", "--debug"); r.code != 0 || len(warnings(r.stderr)) != 0 || strings.Contains(r.stderr, "s3cret-word") {
		t.Errorf("got exit code %d\n%s\nwant no warning and no password", r.code, r.stderr)
	}
}
