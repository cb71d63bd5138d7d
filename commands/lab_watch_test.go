package commands

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"choria-provision/internal/lab"
	"choria-provision/provision/installstate"
)

// freePort is a port of loopback that was free a moment ago.
func freePort(t *testing.T) int {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port
}

// watcher is a running `provision watch`.
type watcher struct {
	t      *testing.T
	cmd    *exec.Cmd
	log    string
	exited chan error
}

func startWatch(t *testing.T, l *lab.Lab, args ...string) *watcher {
	t.Helper()
	return startWatchWith(t, l, nil, args...)
}

// startWatchWith adds to the environment.
func startWatchWith(t *testing.T, l *lab.Lab, env []string, args ...string) *watcher {
	t.Helper()
	cmd, _, _ := commandUntil(t.Context(), l, append([]string{"watch"}, args...)...)
	cmd.Env = append(cmd.Env, env...)
	log, err := os.Create(filepath.Join(t.TempDir(), "watch.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w := &watcher{t: t, cmd: cmd, log: log.Name(), exited: make(chan error, 1)}
	go func() { w.exited <- cmd.Wait() }()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s said:\n%s", args, w.said())
		}
	})
	return w
}

func (w *watcher) said() string {
	text, _ := os.ReadFile(w.log)
	return string(text)
}

// leads says whether this instance said last that it leads.
func (w *watcher) leads() bool {
	said := w.said()
	return strings.LastIndex(said, "this instance leads") > strings.LastIndex(said, "another instance may lead")
}

// signal sends a signal and returns the exit code that follows.
func (w *watcher) signal(s syscall.Signal) int {
	w.t.Helper()
	if err := w.cmd.Process.Signal(s); err != nil {
		w.t.Fatal(err)
	}
	select {
	case <-w.exited:
	case <-time.After(patience):
		w.t.Fatalf("watch does not end:\n%s", w.said())
	}
	return w.cmd.ProcessState.ExitCode()
}

// metric reads one of our values of /metrics; name is a regular expression.
func metric(t *testing.T, port int, name string) string {
	t.Helper()
	return valueIn(exposed(t, port), "choria_provisioner_"+name)
}

// exposed is the whole of /metrics, empty when nobody serves it.
func exposed(t *testing.T, port int) string {
	t.Helper()
	response, err := monitor(port, "metrics")
	if err != nil {
		return ""
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// monitor asks watch over a connection that does not stay: it would count among
// what watch has open.
func monitor(port int, path string) (*http.Response, error) {
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	return client.Get(fmt.Sprintf("http://127.0.0.1:%d/%s", port, path))
}

// valueIn is the value of the first series of a name, with any labels, empty
// when there is none. The name is a regular expression.
func valueIn(text, name string) string {
	if found := regexp.MustCompile(`(?m)^` + name + `(?:\{[^}]*\})? (\S+)$`).FindStringSubmatch(text); found != nil {
		return found[1]
	}
	return ""
}

func TestWatchProvisionsWhoAnnouncesItselfWithoutATick(t *testing.T) {
	t.Parallel()
	for _, enrollment := range []string{lab.Insecure, lab.PKI, lab.Issuer} {
		t.Run(enrollment, func(t *testing.T) {
			t.Parallel()
			l := startLab(t, lab.Options{Nodes: 2, Enrollment: enrollment})
			name, port := l.NodeNames()[0], freePort(t)
			if err := l.SetConfig(map[string]any{"interval": "1h", "monitor_port": port}); err != nil {
				t.Fatal(err)
			}
			pid := filepath.Join(t.TempDir(), "pid")
			w := startWatch(t, l, "--pid", pid)
			await(t, "both nodes in service", func() bool { return metric(t, port, "provisioned") == "2" })
			if got := inService(t, l); len(got) != 2 {
				t.Fatalf("in service: %v, want both", got)
			}
			if text, err := os.ReadFile(pid); err != nil || strings.TrimSpace(string(text)) != fmt.Sprint(w.cmd.Process.Pid) {
				t.Errorf("got pid file %q, %v", text, err)
			}
			if r := runIn(t, l, "once"); r.code != 4 {
				t.Errorf("once beside watch: got exit code %d, want 4\n%s", r.code, r.stderr)
			}
			if r := runIn(t, l, "reset", name, "--reprovision"); r.code != 0 {
				t.Fatalf("got exit code %d\n%s%s", r.code, r.stdout, r.stderr)
			}
			await(t, "the node again", func() bool { return metric(t, port, "provisioned") == "3" })
			if cycles, events := metric(t, port, "discover_cycles"), metric(t, port, "event_discovered"); cycles != "1" || events != "1" {
				t.Errorf("got %s discoveries and %s nodes by event, want 1 and 1", cycles, events)
			}
			logTime(t, l, name)
			if code := w.signal(syscall.SIGTERM); code != 0 {
				t.Errorf("got exit code %d, want 0", code)
			}
			if _, err := os.Stat(pid); err == nil {
				t.Error("the pid file is still there")
			}
			if got := inService(t, l); len(got) != 2 {
				t.Errorf("in service: %v, want both", got)
			}
		})
	}
}

// logTime tells how long it took from a server's start in provisioning to its
// configuration.
func logTime(t *testing.T, l *lab.Lab, name string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(l.NodeDir(name), "journal.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	var started time.Time
	for line := range strings.Lines(string(text)) {
		var a lab.Action
		if err := json.Unmarshal([]byte(line), &a); err != nil {
			t.Fatal(err)
		}
		switch {
		case a.Started == "provisioning":
			started = a.Time
		case a.Name == "choria_provision#configure":
			t.Logf("%s: configured %s after it was ready", name, a.Time.Sub(started).Round(time.Millisecond))
		}
	}
}

func TestWatchPausesAndReadsItsConfigurationAgain(t *testing.T) {
	t.Parallel()
	l := startLab(t, lab.Options{Nodes: 1, Enrollment: lab.Issuer})
	port := freePort(t)
	keys := map[string]any{"interval": "1h", "monitor_port": port}
	if err := l.SetConfig(keys); err != nil {
		t.Fatal(err)
	}
	if r := runIn(t, l, "pause", "--reason", "freeze"); r.code != 0 {
		t.Fatalf("got exit code %d\n%s", r.code, r.stderr)
	}
	w := startWatch(t, l)
	await(t, "the pause", func() bool { return metric(t, port, "paused") == "1" })
	if got := metric(t, port, "discover_cycles"); got != "0" {
		t.Errorf("got %s discoveries while paused, want none", got)
	}

	keys["helper"] = nil
	if err := l.SetConfig(keys); err != nil {
		t.Fatal(err)
	}
	await(t, "the refusal", func() bool { return strings.Contains(w.said(), "cannot be used, the one before stays in force") })
	await(t, "the reason", func() bool { return strings.Contains(w.said(), "error: helper: is missing") })
	if strings.Contains(w.said(), `\n`) {
		t.Errorf("a log line holds more than one problem:\n%s", w.said())
	}
	if err := l.Behave("*", lab.Behaviour{Do: lab.Defer, Message: "later"}); err != nil {
		t.Fatal(err)
	}
	delete(keys, "helper")
	keys["helper_timeout"] = "17s"
	if err := l.SetConfig(keys); err != nil {
		t.Fatal(err)
	}
	await(t, "the change", func() bool { return strings.Contains(w.said(), "changed: helper_timeout") })

	if r := runIn(t, l, "resume"); r.code != 0 {
		t.Fatalf("got exit code %d\n%s", r.code, r.stderr)
	}
	await(t, "the node", func() bool { return strings.Contains(w.said(), "deferred") })
	if got := metric(t, port, "paused"); got != "0" {
		t.Errorf("got paused %s after resume, want 0", got)
	}
	if r := runIn(t, l, "pause"); r.code != 0 {
		t.Fatal(r.stderr)
	}
	await(t, "the second pause", func() bool { return metric(t, port, "paused") == "1" })

	// A change after a discovery: -race ends watch with another exit code when
	// the two share memory.
	keys["interval"] = "2h"
	if err := l.SetConfig(keys); err != nil {
		t.Fatal(err)
	}
	await(t, "the second change", func() bool { return strings.Contains(w.said(), "changed: interval") })
	if code := w.signal(syscall.SIGINT); code != 0 {
		t.Errorf("got exit code %d, want 0", code)
	}
}

func TestAnElectionThatCannotBeHeldEndsWatch(t *testing.T) {
	t.Parallel()
	l := startLab(t, lab.Options{Nodes: 1, Enrollment: lab.PKI})
	// without the provisioning login there is no election to be seen
	if err := l.SetConfig(map[string]any{"leader_election": true, "broker_provisioning_password": nil}); err != nil {
		t.Fatal(err)
	}
	w := startWatch(t, l)
	select {
	case <-w.exited:
	case <-time.After(patience):
		t.Fatal("watch stays, paused in silence")
	}
	if code := w.cmd.ProcessState.ExitCode(); code != 1 || !strings.Contains(w.said(), "election") {
		t.Errorf("got exit code %d, want 1 and the cause\n%s", code, w.said())
	}
}

// proxy stands between provisioner and broker, and can cut the wire.
type proxy struct {
	listener net.Listener
	target   string

	mu    sync.Mutex
	conns []net.Conn
}

func startProxy(t *testing.T, target string) *proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: listener, target: target}
	t.Cleanup(func() { listener.Close(); p.cut() })
	go func() {
		for {
			inbound, err := listener.Accept()
			if err != nil {
				return
			}
			outbound, err := net.Dial("tcp", target)
			if err != nil {
				inbound.Close()
				continue
			}
			p.mu.Lock()
			p.conns = append(p.conns, inbound, outbound)
			p.mu.Unlock()
			go func() { _, _ = io.Copy(outbound, inbound); outbound.Close() }()
			go func() { _, _ = io.Copy(inbound, outbound); inbound.Close() }()
		}
	}()
	return p
}

func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, conn := range p.conns {
		conn.Close()
	}
	p.conns = nil
}

func TestWatchOutlivesCutsOfTheWire(t *testing.T) {
	t.Parallel()
	l := startLab(t, lab.Options{Nodes: 2, Enrollment: lab.Issuer})
	port := freePort(t)
	wire := startProxy(t, strings.TrimPrefix(l.BrokerURL(), "nats://"))
	if err := l.SetChoria(map[string]string{"plugin.choria.middleware_hosts": "nats://" + wire.listener.Addr().String()}); err != nil {
		t.Fatal(err)
	}
	if err := l.SetConfig(map[string]any{"interval": "1h", "monitor_port": port, "leader_election": true}); err != nil {
		t.Fatal(err)
	}
	w := startWatch(t, l)
	await(t, "the nodes", func() bool { return metric(t, port, "provisioned") == "2" })
	for cut := range 3 {
		wire.cut()
		await(t, "the connection", func() bool { return strings.Count(w.said(), "is there again") == cut+1 })
		if got := strings.Count(w.said(), "connection to the broker was lost"); got != cut+1 {
			t.Errorf("the loss was told %d times after %d cuts, want once each", got, cut+1)
		}
	}
	name := l.NodeNames()[1]
	if got := inService(t, l); !slices.Contains(got, name) {
		t.Fatalf("in service: %v, want %s", got, name)
	}
	if r := runIn(t, l, "reset", name, "--reprovision"); r.code != 0 {
		t.Fatalf("got exit code %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	await(t, "the node again, by its event or a leader's discovery", func() bool { return metric(t, port, "provisioned") == "3" })
	if record, err := installstate.NewStore(l.StateDir()).Load(name); err != nil || record.Phase != installstate.Complete {
		t.Errorf("got %q, %v, want complete", record.Phase, err)
	}
	if code := w.signal(syscall.SIGTERM); code != 0 {
		t.Errorf("got exit code %d, want 0", code)
	}
}

func TestWatchOutlivesBrokersThatRestartUnderLoad(t *testing.T) {
	t.Parallel()
	const restarts = 10
	l := startLab(t, lab.Options{Nodes: 6, Enrollment: lab.Issuer})
	port := freePort(t)
	keys := map[string]any{
		"interval": "1m", "monitor_port": port, "leader_election": true, "workers": 2, "rpc_timeout": "3s",
		"helper": slowHelper(t, l),
	}
	if err := l.SetConfig(keys); err != nil {
		t.Fatal(err)
	}
	// The load begins when all parts of watch have been at work once.
	if err := l.Behave("*", lab.Behaviour{Do: lab.Defer, Message: "later"}); err != nil {
		t.Fatal(err)
	}
	w := startWatch(t, l)
	await(t, "every node to be deferred", func() bool { return strings.Count(w.said(), "deferred") >= 6 })
	await(t, "quiet", func() bool { return metric(t, port, "busy_workers") == "0" })
	var before usage
	await(t, "a steady state", func() bool {
		last := before
		before = w.uses(port)
		return before.goroutines == last.goroutines && before.files == last.files
	})
	t.Logf("before: %+v", before)
	if err := l.Behave("*", lab.Behaviour{}); err != nil {
		t.Fatal(err)
	}
	for range restarts { // each brings a discovery
		if err := l.RestartBroker(t.Context()); err != nil {
			t.Fatal(err)
		}
		await(t, "health", func() bool { return healthy(port) })
	}
	for _, name := range l.NodeNames() {
		awaitAction(t, l, name, "choria_provision#restart")
	}
	if got := inService(t, l); len(got) != 6 {
		t.Errorf("in service: %v, want all", got)
	}
	var after usage
	await(t, fmt.Sprintf("what was in use before (%+v)", before), func() bool {
		after = w.uses(port)
		return after.goroutines <= before.goroutines && after.files <= before.files && after.heap <= before.heap+before.heap/4+4<<20
	})
	t.Logf("after %d restarts: %+v", restarts, after)
	if got := metric(t, port, "busy_workers"); got != "0" {
		t.Errorf("got %s busy workers, want none", got)
	}
	if code := w.signal(syscall.SIGTERM); code != 0 {
		t.Errorf("got exit code %d, want 0", code)
	}
}

// slowHelper is the lab's helper after a pause: it keeps nodes at work while
// the broker goes and comes.
func slowHelper(t *testing.T, l *lab.Lab) string {
	t.Helper()
	script := filepath.Join(t.TempDir(), "helper.sh")
	text := "sleep 0.3\nexec " + filepath.Join(l.Dir(), "bin", "lab-helper") + "\n"
	if err := os.WriteFile(script, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	return "/bin/sh " + script
}

// usage is what a process has in use.
type usage struct{ goroutines, files, heap int }

func (w *watcher) uses(port int) usage {
	w.t.Helper()
	text := exposed(w.t, port)
	value := func(name string) int { return int(numeric(w.t, valueIn(text, name))) }
	return usage{value("go_goroutines"), value("process_open_fds"), value("go_memstats_heap_alloc_bytes")}
}

func healthy(port int) bool {
	response, err := monitor(port, "healthz")
	if err != nil {
		return false
	}
	response.Body.Close()
	return response.StatusCode == http.StatusOK
}

// descriptors counts the open files of a process.
func descriptors(t *testing.T, pid int) int {
	t.Helper()
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

func TestABrokerThatDoesNotLetUsInAgainEndsWatch(t *testing.T) {
	t.Parallel()
	l := startLab(t, lab.Options{Nodes: 1, Enrollment: lab.PKI})
	w := startWatch(t, l)
	awaitAction(t, l, l.NodeNames()[0], "choria_provision#restart")

	file := filepath.Join(l.Dir(), "broker.conf")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	changed := regexp.MustCompile(`(?m)^(plugin\.choria\.network\.provisioning\.client_password\s*=).*$`).ReplaceAll(text, []byte("$1 another"))
	if err := os.WriteFile(file, changed, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := l.RestartBroker(t.Context()); err != nil {
		t.Fatal(err)
	}
	select {
	case <-w.exited:
	case <-time.After(patience):
		t.Fatalf("watch goes on:\n%s", w.said())
	}
	if code := w.cmd.ProcessState.ExitCode(); code != 1 || !strings.Contains(w.said(), "refuses our credentials") {
		t.Errorf("got exit code %d, want 1 and the cause\n%s", code, w.said())
	}
}

func TestWatchTellsSystemd(t *testing.T) {
	t.Parallel()
	l := startLab(t, lab.Options{Nodes: 1, Enrollment: lab.Insecure})
	path := filepath.Join(t.TempDir(), "notify")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	if err := socket.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	hear := func(want string) {
		t.Helper()
		message := make([]byte, 4096)
		for {
			n, err := socket.Read(message)
			if err != nil {
				t.Fatalf("waiting for %s: %v", want, err)
			}
			if string(message[:n]) == want {
				return
			}
		}
	}
	cmd, _, _ := commandUntil(t.Context(), l, "watch")
	cmd.Env = append(cmd.Env, "NOTIFY_SOCKET="+path, "WATCHDOG_USEC=1500000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	hear("READY=1")
	hear("WATCHDOG=1")
	hear("WATCHDOG=1")
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	hear("STOPPING=1")
	if err := cmd.Wait(); err != nil {
		t.Errorf("watch ended with %v", err)
	}
}
