package commands

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"choria-provision/internal/fleet"
	"choria-provision/internal/lab"
)

// soakOptions are those of `make soak`; without them a soak is short.
func soakOptions(t *testing.T) (length time.Duration, nodes int) {
	t.Helper()
	length, nodes = time.Minute, 150
	for name, target := range map[string]func(string) error{
		"PROVISION_SOAK":       func(text string) (err error) { length, err = time.ParseDuration(text); return err },
		"PROVISION_SOAK_NODES": func(text string) (err error) { nodes, err = strconv.Atoi(text); return err },
	} {
		if text := os.Getenv(name); text != "" {
			if err := target(text); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
	}
	return length, nodes
}

// TestSoak lets nodes come, fail, be provisioned, go and come back for a while,
// and then holds what watch counted against what the nodes saw. A node that
// comes back is held for a minute, so that 2400 nodes give 36 a second at most.
func TestSoak(t *testing.T) {
	t.Parallel()
	length, nodes := soakOptions(t)
	l := startLab(t, lab.Options{Simulate: nodes, Enrollment: lab.Insecure, Faults: []fleet.Fault{
		{Kind: fleet.Comeback, Share: 0.9}, {Kind: fleet.Twin, Share: 0.01}, {Kind: fleet.Silent, Share: 0.01},
		{Kind: fleet.Refuse, Share: 0.02}, {Kind: fleet.Garbage, Share: 0.02},
	}})
	port, left := freePort(t), filepath.Join(t.TempDir(), "left.prom")
	if err := l.SetConfig(map[string]any{
		"interval": "1m", "monitor_port": port, "workers": 10, "rpc_timeout": "5s", "metrics_textfile": left, "helper": lightHelper(l),
	}); err != nil {
		t.Fatal(err)
	}
	w := startWatch(t, l)
	seen := w.soak(length, port)
	await(t, "a node that came back and said so", func() bool { return metric(t, port, "event_discovered") > "0" })
	if code := w.signal(syscall.SIGTERM); code != 0 {
		t.Errorf("got exit code %d, want 0", code)
	}
	counted, err := os.ReadFile(left) // in the midst of the work: nodes that were configured still got their restart
	if err != nil {
		t.Fatal(err)
	}
	compareCounts(t, l, string(counted))
	value := func(name string) string { return valueIn(string(counted), "choria_provisioner_"+name) }
	t.Logf("%s with %d nodes: %s provisioned, %.1f a second; %s failed; %s found by event, %s by broadcast",
		length, nodes, value("provisioned"), numeric(t, value("provisioned"))/length.Seconds(), value("provision_errors"),
		value("event_discovered"), value("discovered"))
	if length >= 10*time.Minute {
		holdFlat(t, seen)
	}
}

// lightHelper is a helper that starts in a millisecond or two: the lab's own is
// this whole program, and a soak is about watch.
func lightHelper(l *lab.Lab) string {
	answer := `{"configuration":{"identity":"\1","plugin.choria.server.provision":"0","plugin.security.provider":"file",` +
		`"plugin.choria.middleware_hosts":"` + l.BrokerURL() + `","plugin.choria.use_srv":"false","rpcauthorization":"0"}}`
	return `sed -n 's|.*"identity":"\([^"]*\)".*|` + answer + `|p'`
}

// sample is what watch used and had done at a moment.
type sample struct {
	at                        time.Duration // since the start
	provisioned               float64
	memory, files, goroutines int // KiB and numbers
}

// soak lets watch work for a while and looks at it now and then.
func (w *watcher) soak(length time.Duration, port int) (seen []sample) {
	w.t.Helper()
	const looks, lines = 180, 15
	pid, started := w.cmd.Process.Pid, time.Now()
	end := time.NewTimer(length)
	defer end.Stop()
	ticker := time.NewTicker(max(length/looks, time.Second))
	defer ticker.Stop()
	var last sample
	for {
		select {
		case <-ticker.C:
			text := exposed(w.t, port)
			s := sample{
				at: time.Since(started), provisioned: numeric(w.t, valueIn(text, "choria_provisioner_provisioned")),
				memory: resident(w.t, pid), files: descriptors(w.t, pid), goroutines: int(numeric(w.t, valueIn(text, "go_goroutines"))),
			}
			seen = append(seen, s)
			if s.at-last.at >= length/lines {
				w.t.Logf("%8s: %5.1f a second, memory %3d MiB, %3d descriptors, %3d goroutines", s.at.Round(time.Second),
					(s.provisioned-last.provisioned)/(s.at-last.at).Seconds(), s.memory>>10, s.files, s.goroutines)
				last = s
			}
		case <-end.C:
			return seen
		case <-w.exited:
			w.t.Fatalf("watch ended:\n%s", w.said())
		}
	}
}

// holdFlat wants the last third of a soak to use what the middle one did. What
// is used at a moment goes up and down with the nodes at work: what leaks grows
// with every node, or at least with every discovery.
func holdFlat(t *testing.T, seen []sample) {
	t.Helper()
	for name, of := range map[string]func(sample) int{
		"memory in KiB": func(s sample) int { return s.memory },
		"descriptors":   func(s sample) int { return s.files },
		"goroutines":    func(s sample) int { return s.goroutines },
	} {
		median := func(part []sample) int {
			var values []int
			for _, s := range part {
				values = append(values, of(s))
			}
			slices.Sort(values)
			return values[len(values)/2]
		}
		third := len(seen) / 3
		if before, after := median(seen[third:2*third]), median(seen[2*third:]); after > before*5/4+5 {
			t.Errorf("%s grew from %d to %d, want them flat", name, before, after)
		}
	}
}

// numeric reads a metric's value; one that is not there yet is 0.
func numeric(t *testing.T, text string) (value float64) {
	t.Helper()
	if text == "" {
		return 0
	}
	value, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// compareCounts holds the metrics against the nodes' own counts.
func compareCounts(t *testing.T, l *lab.Lab, counted string) {
	t.Helper()
	seen, err := l.Simulated()
	if err != nil {
		t.Fatal(err)
	}
	if err := seen.Check(); err != nil {
		t.Errorf("the nodes say: %v", err)
	}
	restarted := 0
	for _, group := range seen.Groups {
		restarted += group.Restarted + group.Comebacks
	}
	if got := valueIn(counted, "choria_provisioner_provisioned"); got != fmt.Sprint(restarted) || restarted == 0 {
		t.Errorf("got provisioned %s, the nodes restarted %d times", got, restarted)
	}
	for action, times := range seen.Actions {
		name := fmt.Sprintf(`choria_provisioner_rpc_time_count\{rpc="%s"[^}]*\}`, regexp.QuoteMeta(action))
		if got := valueIn(counted, name); got != fmt.Sprint(times) {
			t.Errorf("%s: %s attempts were counted, the nodes were asked %d times", action, got, times)
		}
	}
}

// resident is a process's memory, in KiB.
func resident(t *testing.T, pid int) (size int) {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`VmRSS:\s+(\d+) kB`).FindSubmatch(text)
	if found == nil {
		t.Fatalf("no VmRSS for process %d", pid)
	}
	size, err = strconv.Atoi(string(found[1]))
	if err != nil {
		t.Fatal(err)
	}
	return size
}
