package commands

import (
	"fmt"
	"os"
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
// and then holds what watch counted against what the nodes saw.
func TestSoak(t *testing.T) {
	t.Parallel()
	length, nodes := soakOptions(t)
	l := startLab(t, lab.Options{Simulate: nodes, Enrollment: lab.Insecure, Faults: []fleet.Fault{
		{Kind: fleet.Comeback, Share: 0.9}, {Kind: fleet.Silent, Share: 0.01}, {Kind: fleet.Refuse, Share: 0.02}, {Kind: fleet.Garbage, Share: 0.02},
	}})
	port := freePort(t)
	if err := l.SetConfig(map[string]any{"interval": "1m", "monitor_port": port, "workers": 10, "rpc_timeout": "1s"}); err != nil {
		t.Fatal(err)
	}
	w := startWatch(t, l)
	pid := w.cmd.Process.Pid
	end := time.NewTimer(length)
	defer end.Stop()
	sample := time.NewTicker(max(length/60, time.Second))
	defer sample.Stop()
	var memory, files []int
	for soaking := true; soaking; {
		select {
		case <-end.C:
			soaking = false
		case <-sample.C:
			memory, files = append(memory, resident(t, pid)), append(files, descriptors(t, pid))
		case <-w.exited:
			t.Fatalf("watch ended:\n%s", w.said())
		}
	}
	// Between two ticks all is quiet: a pause would leave nodes at work half way.
	await(t, "a quiet moment", func() bool { return metric(t, port, "busy_workers") == "0" })
	if r := runIn(t, l, "pause"); r.code != 0 {
		t.Fatal(r.stderr)
	}
	await(t, "quiet", func() bool { return metric(t, port, "paused") == "1" && metric(t, port, "busy_workers") == "0" })
	compareCounts(t, l, port)
	t.Logf("%s with %d nodes: provisioned %s times; memory %d MiB after a third, %d MiB at the end, descriptors %d and %d",
		length, nodes, metric(t, port, "provisioned"), memory[len(memory)/3]>>10, memory[len(memory)-1]>>10, files[len(files)/3], files[len(files)-1])
	if third := len(memory) / 3; length >= 10*time.Minute {
		if first, last := slices.Max(memory[third:2*third]), slices.Max(memory[2*third:]); last > first*5/4 {
			t.Errorf("memory grew from %d KiB to %d KiB, want it flat", first, last)
		}
		if first, last := slices.Min(files[third:2*third]), slices.Min(files[2*third:]); last > first { // nodes at work have some more
			t.Errorf("descriptors grew from %d to %d, want them flat", first, last)
		}
	}
	if code := w.signal(syscall.SIGTERM); code != 0 {
		t.Errorf("got exit code %d, want 0", code)
	}
}

// compareCounts holds the metrics against the nodes' own counts.
func compareCounts(t *testing.T, l *lab.Lab, port int) {
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
	if got := metric(t, port, "provisioned"); got != fmt.Sprint(restarted) || restarted == 0 {
		t.Errorf("got provisioned %s, the nodes restarted %d times", got, restarted)
	}
	for action, times := range seen.Actions {
		name := fmt.Sprintf(`rpc_time_count\{rpc="%s"[^}]*\}`, regexp.QuoteMeta(action))
		if got := metric(t, port, name); got != "" && got != fmt.Sprint(times) {
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
