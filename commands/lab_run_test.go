package commands

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"choria-provision/internal/lab"
	"choria-provision/provision/installstate"

	"github.com/google/go-cmp/cmp"
)

func TestEachWayAHelperCanGoEndsItsNodeOnly(t *testing.T) {
	t.Parallel()
	l := startLab(t, lab.Options{Nodes: 7, Enrollment: lab.PKI})
	if err := l.SetConfig(map[string]any{"helper_timeout": "20s", "workers": 7}); err != nil {
		t.Fatal(err)
	}
	ways := []struct {
		behaviour        lab.Behaviour
		outcome, cause   string
		message, inError string
	}{
		{lab.Behaviour{}, "provisioned", "", "", ""},
		{lab.Behaviour{Do: lab.Defer, Message: "later"}, "deferred", "", "later", ""},
		{lab.Behaviour{Do: lab.Shutdown, Message: "old"}, "shutdown", "", "old", ""},
		{lab.Behaviour{Do: lab.Fail, Message: "no such machine"}, "failed", "helper", "", "no such machine"},
		{lab.Behaviour{Do: lab.Hang}, "failed", "helper_timeout", "", "20s"},
		{lab.Behaviour{Do: lab.Garbage}, "failed", "helper_answer", "", ""},
		{lab.Behaviour{Do: lab.Other}, "failed", "helper_answer", "", "while identity in the configuration is"},
	}
	names := l.NodeNames()
	for i, way := range ways {
		if err := l.Behave(names[i], way.behaviour); err != nil {
			t.Fatal(err)
		}
	}
	doc, r := report(t, l, "once")
	if r.code != 3 {
		t.Errorf("got exit code %d, want 3\n%s", r.code, r.stderr)
	}
	nodes := outcomes(doc)
	for i, way := range ways {
		got := nodes[names[i]]
		if got.Outcome != way.outcome || got.Cause != way.cause || got.Message != way.message || !strings.Contains(got.Error, way.inError) {
			t.Errorf("%s: got %s, cause %q, message %q, error %q, want %+v", way.behaviour.Do, got.Outcome, got.Cause, got.Message, got.Error, way)
		}
	}
	if left := helpersLeft(t, l); len(left) != 0 {
		t.Errorf("still running: %v", left)
	}
	if got := inService(t, l); !slices.Equal(got, names[:1]) {
		t.Errorf("in service: %v, want %v", got, names[:1])
	}
}

func TestAKeyFromTheHelperArrivesReadable(t *testing.T) {
	t.Parallel()
	l := startLab(t, lab.Options{Nodes: 1, Enrollment: lab.PKI})
	if err := l.Behave("*", lab.Behaviour{Do: lab.SendKey}); err != nil {
		t.Fatal(err)
	}
	if r := runIn(t, l, "once"); r.code != 0 {
		t.Fatalf("got exit code %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	if got := inService(t, l); len(got) != 1 {
		t.Errorf("in service: %v, want the node", got)
	}
}

func TestAnUpgradeIsFollowedByProvisioning(t *testing.T) {
	t.Parallel()
	for _, enrollment := range []string{lab.Insecure, lab.PKI, lab.Issuer} {
		t.Run(enrollment, func(t *testing.T) {
			t.Parallel()
			l := startLab(t, lab.Options{Nodes: 1, Enrollment: enrollment, Upgrade: "0.99.0"})
			name := l.NodeNames()[0]
			doc, r := report(t, l, "once")
			if got := outcomes(doc)[name]; r.code != 0 || got.Outcome != "upgraded" || got.Upgrade != "0.99.0" {
				t.Fatalf("got exit code %d, %+v, want upgraded\n%s", r.code, got, r.stderr)
			}
			// A run before that would meet the old server in its last seconds.
			await(t, "the new release", func() bool { return started(t, l, name, "0.99.0") })
			doc, r = report(t, l, "once")
			if got := outcomes(doc)[name]; r.code != 0 || got.Outcome != "provisioned" || got.Version != "0.99.0" {
				t.Fatalf("got exit code %d, %+v, want provisioned with the new version\n%s", r.code, got, r.stderr)
			}
			if got := inService(t, l); len(got) != 1 {
				t.Errorf("in service: %v, want the node with version 0.99.0", got)
			}
			if got := asked(t, l, name); !slices.Contains(got, "choria_provision#release_update") {
				t.Errorf("asked: %v, want release_update among it", got)
			}
		})
	}
}

// started reports whether a server started with that version.
func started(t *testing.T, l *lab.Lab, name, version string) bool {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(l.NodeDir(name), "journal.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Contains(string(text), `"started":"provisioning","version":"`+version+`"`)
}

// A server that came into service without the upgrade is not in order.
func TestServerWithAnotherReleaseIsNotInOrder(t *testing.T) {
	t.Parallel()
	l := startLab(t, lab.Options{Nodes: 1, Enrollment: lab.Insecure, Upgrade: "0.99.0"})
	if err := l.SetConfig(map[string]any{"features": map[string]any{"jwt": true}}); err != nil {
		t.Fatal(err)
	}
	if r := runIn(t, l, "once"); r.code != 0 {
		t.Fatalf("got exit code %d\n%s", r.code, r.stderr)
	}
	findings, err := l.Verify(t.Context())
	if err != nil || findings[0].State != lab.Wrong || !strings.Contains(findings[0].Problem, "not 0.99.0") {
		t.Errorf("got %+v and error %v, want the version named", findings, err)
	}
}

func TestOneNodeByNameLeavesTheOthersWaiting(t *testing.T) {
	t.Parallel()
	for _, enrollment := range []string{lab.PKI, lab.Issuer} {
		t.Run(enrollment, func(t *testing.T) {
			t.Parallel()
			l := startLab(t, lab.Options{Nodes: 3, Enrollment: enrollment})
			names := l.NodeNames()
			if r := runIn(t, l, "node", names[1], "--wait", "20s"); r.code != 0 {
				t.Fatalf("got exit code %d\n%s", r.code, r.stderr)
			}
			if got := inService(t, l); !slices.Equal(got, names[1:2]) {
				t.Errorf("in service: %v, want %v", got, names[1:2])
			}
			for _, name := range []string{names[0], names[2]} {
				if got := asked(t, l, name); len(got) != 0 {
					t.Errorf("%s was asked for %v, want nothing", name, got)
				}
			}
			if r := runIn(t, l, "node", "no-such-node", "--no-metrics"); r.code != 3 || !strings.Contains(r.stdout+r.stderr, "not connected") {
				t.Errorf("a node that is not there: got exit code %d\n%s%s", r.code, r.stdout, r.stderr)
			}
		})
	}
}

func TestStrangersTwinsAndWrongTokens(t *testing.T) {
	t.Parallel()
	l := startLab(t, lab.Options{Nodes: 3, Enrollment: lab.Issuer, Strangers: 1, Twins: true})
	names := l.NodeNames()
	doc, r := report(t, l, "once")
	nodes := outcomes(doc)
	if r.code != 3 {
		t.Errorf("got exit code %d, want 3\n%s", r.code, r.stderr)
	}
	if got := nodes[names[2]]; got.Cause != "jwt" || got.Step != "verify jwt" {
		t.Errorf("the stranger: got %+v, want its provisioning.jwt refused", got)
	}
	if got := nodes[names[1]]; got.Outcome != "provisioned" {
		t.Errorf("the good node: got %+v", got)
	}
	if got := doc.Discovery.Refused; len(got) != 1 || got[0].Identity != names[0] || got[0].Count != 2 || got[0].Cause != "twins" {
		t.Errorf("got refused %+v, want both twins", got)
	}
	if got := asked(t, l, names[0]); len(got) != 0 {
		t.Errorf("a twin was asked for %v", got)
	}

	if err := l.SetConfig(map[string]any{"token": "wrong"}); err != nil {
		t.Fatal(err)
	}
	doc, r = report(t, l, "node", names[0], names[2])
	if r.code != 3 {
		t.Errorf("got exit code %d, want 3", r.code)
	}
	if got := outcomes(doc)[names[2]]; got.Cause != "token" || got.Attempts != 1 {
		t.Errorf("with a wrong token: got %+v, want one attempt and the token named", got)
	}
	if got := outcomes(doc)[names[0]]; got.Outcome != "failed" {
		t.Errorf("a twin by name with a wrong token: got %+v, want failed", got)
	}
	if strings.Contains(r.stderr+r.stdout, "wrong\"") {
		t.Errorf("the token is shown:\n%s", r.stderr)
	}
}

func TestABrokerThatCannotBeUsedIsNamed(t *testing.T) {
	t.Parallel()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { silent.Close() })

	l := startLab(t, lab.Options{Nodes: 1, Enrollment: lab.PKI})
	tests := []struct {
		name   string
		choria map[string]string
		config map[string]any
		code   int
		want   []string
	}{
		{"no broker", map[string]string{"plugin.choria.middleware_hosts": "nats://" + closed.Addr().String()}, map[string]any{"connect_timeout": "2s"}, 1, []string{"no broker answers", closed.Addr().String(), "middleware_hosts"}},
		{"a silent one", map[string]string{"plugin.choria.middleware_hosts": "nats://" + silent.Addr().String()}, map[string]any{"connect_timeout": "2s"}, 1, []string{"says nothing", silent.Addr().String()}},
		{"a CA that signed nothing here", map[string]string{"plugin.security.file.ca": filepath.Join(l.Dir(), "keys", "stranger-ca.pem")}, nil, 1, []string{"CA", "x509"}},
		{"no TLS of ours where the broker demands it", nil, map[string]any{"choria_insecure": true}, 1, []string{"x509", "take `choria_insecure` out"}},
		{"a wrong broker password", nil, map[string]any{"broker_provisioning_password": "wrong"}, 1, []string{"refuses our credentials", "broker_provisioning_password"}},
		{"no broker password", nil, map[string]any{"broker_provisioning_password": nil}, 1, []string{"discovery: the broker has this connection in its production account", "set broker_provisioning_password"}},
		{"no certificate", map[string]string{"plugin.security.file.certificate": "/nonexistent.pem"}, nil, 2, []string{"/nonexistent.pem"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			config := map[string]any{"connect_timeout": "1m"}
			for key, value := range tt.config {
				config[key] = value
			}
			if err := l.SetConfig(config); err != nil {
				t.Fatal(err)
			}
			if err := l.SetChoria(tt.choria); err != nil {
				t.Fatal(err)
			}
			r := runIn(t, l, "once")
			if r.code != tt.code {
				t.Errorf("got exit code %d, want %d", r.code, tt.code)
			}
			for _, want := range tt.want {
				if !strings.Contains(r.stdout+r.stderr, want) {
					t.Errorf("got %q, want it to say %q", r.stdout+r.stderr, want)
				}
			}
		})
	}
}

func TestADryRunLeavesEverythingAsItWas(t *testing.T) {
	t.Parallel()
	for _, enrollment := range []string{lab.PKI, lab.Issuer, lab.Insecure} {
		t.Run(enrollment, func(t *testing.T) {
			t.Parallel()
			l := startLab(t, lab.Options{Nodes: 2, Enrollment: enrollment})
			names := l.NodeNames()
			var pushes atomic.Int32
			gateway := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { pushes.Add(1) }))
			t.Cleanup(gateway.Close)
			if err := l.SetConfig(map[string]any{"pushgateway": map[string]any{"url": gateway.URL}}); err != nil {
				t.Fatal(err)
			}
			before := tree(t, l.StateDir(), filepath.Join(l.Dir(), "nodes"))
			doc, r := report(t, l, "once", "--dry-run")
			if r.code != 0 {
				t.Fatalf("got exit code %d\n%s", r.code, r.stderr)
			}
			for _, name := range names {
				if got := outcomes(doc)[name]; got.Outcome != "planned" || got.Plan == nil || len(got.Plan.Unchecked) == 0 {
					t.Errorf("%s: got %+v, want a plan that says what it did not check", name, got)
				}
				if got := asked(t, l, name); !slices.Equal(got, []string{"rpcutil#inventory"}) {
					t.Errorf("%s was asked for %v, want the inventory", name, got)
				}
			}
			doc, r = report(t, l, "once", "--dry-run", "--run-helper")
			if r.code != 0 {
				t.Errorf("got exit code %d\n%s", r.code, r.stderr)
			}
			for _, name := range names {
				if got := asked(t, l, name); !slices.Equal(got, []string{"rpcutil#inventory", "choria_provision#jwt", "rpcutil#inventory"}) {
					t.Errorf("%s was asked for %v, want jwt and the inventory on top", name, got)
				}
				if got := outcomes(doc)[name]; got.Outcome != "planned" || got.Plan == nil || got.Plan.Configuration["identity"] != name || len(got.Notices) > 0 {
					t.Errorf("%s: got %+v, want what the helper would send and no false alarm", name, got)
				}
			}
			if diff := cmp.Diff(before, tree(t, l.StateDir(), filepath.Join(l.Dir(), "nodes"))); diff != "" {
				t.Errorf("the dry runs changed (-before +after):\n%s", diff)
			}
			if got := pushes.Load(); got != 0 {
				t.Errorf("the gateway heard of the dry runs %d times, want never", got)
			}
			if r := runIn(t, l, "once"); r.code != 0 || pushes.Load() == 0 {
				t.Errorf("a real run: got exit code %d and %d pushes, want 0 and some\n%s", r.code, pushes.Load(), r.stderr)
			}
		})
	}
}

func TestSIGTERMLeavesTheNodeToTheNextRun(t *testing.T) {
	t.Parallel()
	l := startLab(t, lab.Options{Nodes: 2, Enrollment: lab.Issuer})
	name := l.NodeNames()[0]
	if err := l.SetConfig(map[string]any{"helper_timeout": "1m", "workers": 1}); err != nil {
		t.Fatal(err)
	}
	if err := l.Behave("*", lab.Behaviour{Do: lab.Hang}); err != nil {
		t.Fatal(err)
	}
	cmd, stdout, stderr := provisionCommand(t, l, "node", name)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	awaitAction(t, l, name, "rpcutil#inventory")
	awaitHelper(t, l)
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	r := ended(t, cmd.Wait(), stdout, stderr)
	if r.code != 5 || !strings.Contains(r.stderr, "interrupted") {
		t.Errorf("got exit code %d, want 5\n%s", r.code, r.stderr)
	}
	if left := helpersLeft(t, l); len(left) != 0 {
		t.Errorf("still running: %v", left)
	}
	record, err := installstate.NewStore(l.StateDir()).Load(name)
	if err != nil || record.Phase != installstate.Installing {
		t.Errorf("got %q, %v, want installing", record.Phase, err)
	}
	if r := runIn(t, l, "status"); !strings.Contains(strings.ToLower(r.stdout), "interrupted") || !strings.Contains(r.stdout, name) {
		t.Errorf("status says\n%s\nwant the node as interrupted", r.stdout)
	}

	if err := l.Behave("*", lab.Behaviour{}); err != nil {
		t.Fatal(err)
	}
	if r := runIn(t, l, "once"); r.code != 0 {
		t.Errorf("the next run: got exit code %d\n%s", r.code, r.stderr)
	}
	resumed, err := installstate.NewStore(l.StateDir()).Load(name)
	if err != nil || resumed.Phase != installstate.Complete || resumed.InstallationID != record.InstallationID {
		t.Errorf("got %+v, %v, want the same installation complete", resumed, err)
	}
	if got := inService(t, l); len(got) != 2 {
		t.Errorf("in service: %v, want both", got)
	}
}

func TestTwentyAtOnce(t *testing.T) {
	t.Parallel()
	l := startLab(t, lab.Options{Nodes: 2, Enrollment: lab.Insecure})
	type result struct {
		pid int
		ran
	}
	results := make(chan result)
	gate := make(chan struct{})
	for range 20 {
		cmd, stdout, stderr := provisionCommand(t, l, "once")
		go func() {
			<-gate
			err := cmd.Run()
			results <- result{cmd.Process.Pid, ended(t, err, stdout, stderr)}
		}()
	}
	close(gate)
	codes := map[int]int{}
	for range 20 {
		r := <-results
		codes[r.code]++
		if r.code == 4 && !strings.Contains(r.stderr, "process ") {
			t.Errorf("got %q, want the holder's pid", r.stderr)
		}
	}
	if codes[0]+codes[4] != 20 || codes[0] < 1 {
		t.Errorf("got exit codes %v, want one or few 0 and 4 for the others", codes)
	}
	for _, name := range l.NodeNames() {
		if got := asked(t, l, name); len(got) != 4 {
			t.Errorf("%s was asked for %v, want one sequence of four calls", name, got)
		}
	}
	cmd, stdout, stderr := provisionCommand(t, l, "once", "--unattended")
	lock, err := installstate.NewStore(l.StateDir()).AcquireRunLock()
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Release()
	if r := ended(t, cmd.Run(), stdout, stderr); r.code != 0 || r.stdout+r.stderr != "" {
		t.Errorf("unattended beside another run: got exit code %d, %q, want 0 and silence on stdout", r.code, r.stdout)
	}
}

// TestAFailureIsToldOnce has stdout and stderr go to one pipe, as a journal's do.
func TestAFailureIsToldOnce(t *testing.T) {
	t.Parallel()
	l := startLab(t, lab.Options{Nodes: 1, Enrollment: lab.Insecure, Helper: "sh -c 'cat >/dev/null; echo no such host >&2; exit 3'"})
	cmd, _, _ := provisionCommand(t, l, "once")
	cmd.Stdout, cmd.Stderr = nil, nil
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = writer, writer
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := writer.Close(); err != nil {
		t.Error(err)
	}
	text, err := io.ReadAll(reader)
	if err != nil {
		t.Error(err)
	}
	if r := ended(t, cmd.Wait(), &bytes.Buffer{}, &bytes.Buffer{}); r.code != exitNodes {
		t.Errorf("got exit code %d, want %d", r.code, exitNodes)
	}
	if got := strings.Count(string(text), "no such host"); got != 1 {
		t.Errorf("the failure is told %d times, want once:\n%s", got, text)
	}
}
