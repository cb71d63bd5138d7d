package commands

import (
	"bufio"
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"choria-provision/internal/lab"
	"choria-provision/internal/network"

	"github.com/nats-io/nats.go"
)

// onHost is the product as a process on one of the lab's hosts.
func onHost(t *testing.T, l *lab.Lab, host int, args ...string) (*exec.Cmd, *bytes.Buffer, *bytes.Buffer) {
	t.Helper()
	cmd, stdout, stderr := provisionCommand(t, l, args...)
	cmd.Env = append(cmd.Env, l.HostExports(host)...)
	return cmd, stdout, stderr
}

func runOn(t *testing.T, l *lab.Lab, host int, args ...string) ran {
	t.Helper()
	cmd, stdout, stderr := onHost(t, l, host, args...)
	return ended(t, cmd.Run(), stdout, stderr)
}

func TestHostsShareTheirFleetAndTheirState(t *testing.T) {
	t.Parallel()
	for _, enrollment := range []string{lab.PKI, lab.Issuer} {
		t.Run(enrollment, func(t *testing.T) {
			t.Parallel()
			l := startLab(t, lab.Options{Nodes: 1, Enrollment: enrollment, Hosts: 3})
			name := l.NodeNames()[0]
			if r := runOn(t, l, 0, "pause", "--reason", "works"); r.code != 0 {
				t.Fatalf("got exit code %d\n%s", r.code, r.stderr)
			}
			if r := runOn(t, l, 1, "once"); r.code != 4 || !strings.Contains(r.stderr, "works") {
				t.Errorf("paused by another host: got exit code %d, want 4 and the reason\n%s", r.code, r.stderr)
			}
			if r := runOn(t, l, 2, "resume"); r.code != 0 {
				t.Errorf("got exit code %d\n%s", r.code, r.stderr)
			}
			if err := l.Behave(name, lab.Behaviour{Do: lab.Shutdown, Message: "too old"}); err != nil {
				t.Fatal(err)
			}
			if r := runOn(t, l, 1, "once"); r.code != 0 {
				t.Errorf("got exit code %d, want 0\n%s", r.code, r.stderr)
			}
			r := runOn(t, l, 2, "status")
			for _, want := range []string{"shut down: 1 node", name, "host2"} {
				if r.code != 0 || !strings.Contains(r.stdout, want) {
					t.Errorf("status on another host: got exit code %d, want %q\n%s%s", r.code, want, r.stdout, r.stderr)
				}
			}
			if r := runOn(t, l, 0, "reset", name); r.code != 0 {
				t.Errorf("got exit code %d\n%s", r.code, r.stderr)
			}
			if r := runOn(t, l, 1, "status"); strings.Contains(r.stdout, "shut down: 1 node") {
				t.Errorf("status knows a record that another host removed:\n%s", r.stdout)
			}
		})
	}
}

func TestSharedRecordsThatCannotBeUsedEndTheRunBeforeAnyCall(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, enrollment string
		spoil            func(t *testing.T, l *lab.Lab)
		want             []string
	}{
		{"no broker", lab.PKI, changeRecords("plugin.choria.middleware_hosts", "nats://127.0.0.1:1"), []string{"Choria Streams", "no broker answers", "records_choria_config"}},
		{"no permission", lab.Issuer, changeRecords("plugin.security.choria.token_file", "DIR/keys/verifier.jwt", "plugin.security.choria.seed_file", "DIR/keys/verifier.seed"), []string{"Permissions Violation", "Streams User"}},
		{"no buckets", lab.Issuer, removeBuckets, []string{"creating the bucket", "Permissions Violation", "choria kv add CHORIA_PROVISION_RECORDS"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			l := startLab(t, lab.Options{Nodes: 1, Enrollment: tt.enrollment, Hosts: 1})
			tt.spoil(t, l)
			r := runOn(t, l, 0, "once")
			if r.code != 1 {
				t.Errorf("got exit code %d, want 1\n%s", r.code, r.stderr)
			}
			for _, want := range tt.want {
				if !strings.Contains(r.stderr, want) {
					t.Errorf("got %q, want %q in it", r.stderr, want)
				}
			}
			if got := asked(t, l, l.NodeNames()[0]); len(got) != 0 {
				t.Errorf("the node was asked for %v", got)
			}
		})
	}
}

func TestMissingBucketsAreCreatedWhereThatIsAllowed(t *testing.T) {
	t.Parallel()
	l := startLab(t, lab.Options{Nodes: 1, Enrollment: lab.PKI, Hosts: 2})
	removeBuckets(t, l)
	if r := runOn(t, l, 0, "once", "--dry-run"); r.code != 1 || !strings.Contains(r.stderr, "choria kv add") {
		t.Errorf("a dry run: got exit code %d, want 1 and the command\n%s", r.code, r.stderr)
	}
	if r := runOn(t, l, 0, "once"); r.code != 0 {
		t.Errorf("got exit code %d, want 0\n%s", r.code, r.stderr)
	}
	if r := runOn(t, l, 1, "status"); r.code != 0 || !strings.Contains(r.stdout, "1 complete") {
		t.Errorf("got exit code %d, want the other host's record\n%s%s", r.code, r.stdout, r.stderr)
	}
}

// changeRecords returns a function that changes keys of records.conf.
func changeRecords(pairs ...string) func(*testing.T, *lab.Lab) {
	return func(t *testing.T, l *lab.Lab) {
		t.Helper()
		file := filepath.Join(l.Dir(), "records.conf")
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for pair := range slices.Chunk(pairs, 2) {
			text = fmt.Appendf(text, "%s = %s\n", pair[0], strings.ReplaceAll(pair[1], "DIR", l.Dir()))
		}
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func removeBuckets(t *testing.T, l *lab.Lab) {
	t.Helper()
	removeBucketsNamed(t, l, network.RecordsBucket, network.SessionsBucket)
}

func removeBucketsNamed(t *testing.T, l *lab.Lab, names ...string) {
	t.Helper()
	nc, err := l.Inside()
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := nc.JetStream(nats.Context(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	for _, bucket := range names {
		if err := js.DeleteKeyValue(bucket); err != nil {
			t.Fatal(err)
		}
	}
}

// killRounds is how often a host is killed; each round takes the sessions' TTL.
func killRounds(t *testing.T) int {
	text := os.Getenv("PROVISION_HOST_KILLS")
	if text == "" {
		return 3
	}
	rounds, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return rounds
}

// TestKilledHostsHarmNothing kills one of three hosts at a random time, and lets
// the others finish.
func TestKilledHostsHarmNothing(t *testing.T) {
	t.Parallel()
	slots := make(chan struct{}, 10) // a round mostly waits for the TTL
	for round := range killRounds(t) {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			t.Parallel()
			slots <- struct{}{}
			defer func() { <-slots }()
			killOneHost(t, []string{lab.Issuer, lab.PKI}[round%2])
		})
	}
}

func killOneHost(t *testing.T, enrollment string) {
	t.Helper()
	const nodes = 40
	l := startLab(t, lab.Options{Simulate: nodes, Enrollment: enrollment, Hosts: 3})
	log := filepath.Join(t.TempDir(), "helpers")
	if err := l.SetConfig(map[string]any{"workers": 4, "helper": loggingHelper(t, l, log)}); err != nil {
		t.Fatal(err)
	}
	ended := map[int]time.Time{}
	var hosts []*exec.Cmd
	for i := range 3 {
		cmd, _, _ := onHost(t, l, i, "once")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		hosts = append(hosts, cmd)
	}
	victim := hosts[rand.IntN(3)]
	await(t, "work", func() bool { return len(readHelpers(t, log)) > rand.IntN(nodes/2) })
	killed := time.Now()
	_ = victim.Process.Kill()
	for _, cmd := range hosts {
		_ = cmd.Wait() // nodes of the victim are skipped, it was killed
		ended[cmd.Process.Pid] = time.Now()
	}
	living := []int{0, 1, 2}
	await(t, "all nodes in service", func() bool {
		host := living[rand.IntN(len(living))]
		if r := runOn(t, l, host, "once"); r.code != 0 {
			t.Fatalf("got exit code %d\n%s%s", r.code, r.stdout, r.stderr)
		}
		report, err := l.Simulated()
		if err != nil {
			t.Fatal(err)
		}
		return report.InService() == nodes
	})
	t.Logf("%s: the last node was taken over %.1f s after the kill", enrollment, lastBegin(readHelpers(t, log)).Sub(killed).Seconds())
	for _, clash := range clashes(readHelpers(t, log), ended) {
		t.Error(clash)
	}
	if r := runOn(t, l, 0, "status"); r.code != 0 || !strings.Contains(r.stdout, fmt.Sprint(nodes, " complete")) {
		t.Errorf("got exit code %d, want every record complete\n%s%s", r.code, r.stdout, r.stderr)
	}
}

// lastBegin is when the last node came to its helper: the claims of a killed host
// were free by then.
func lastBegin(runs []helped) (last time.Time) {
	for _, run := range runs {
		if run.begin.After(last) {
			last = run.begin
		}
	}
	return last
}

// loggingHelper is the lab's helper, with a line in log when it begins and ends.
func loggingHelper(t *testing.T, l *lab.Lab, log string) string {
	t.Helper()
	script := filepath.Join(t.TempDir(), "helper.sh")
	text := `input=$(cat)
identity=$(printf %s "$input" | sed 's/.*"identity":"\([^"]*\)".*/\1/')
echo "begin $identity $PPID $(date +%s%N)" >> ` + log + `
sleep 0.1
printf %s "$input" | ` + filepath.Join(l.Dir(), "bin", "lab-helper") + `
code=$?
echo "end $identity $PPID $(date +%s%N)" >> ` + log + `
exit $code
`
	if err := os.WriteFile(script, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	return "/bin/sh " + script
}

// helped is one run of the helper.
type helped struct {
	identity   string
	pid        int // of the product
	begin, end time.Time
}

func readHelpers(t *testing.T, log string) []helped {
	t.Helper()
	text, err := os.ReadFile(log)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	open := map[string]helped{}
	var all []helped
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		var what, identity string
		var pid int
		var at int64
		if _, err := fmt.Sscan(lines.Text(), &what, &identity, &pid, &at); err != nil {
			t.Fatalf("%q: %v", lines.Text(), err)
		}
		key := fmt.Sprint(identity, pid)
		if what == "begin" {
			open[key] = helped{identity: identity, pid: pid, begin: time.Unix(0, at)}
			continue
		}
		run := open[key]
		run.end = time.Unix(0, at)
		all = append(all, run)
		delete(open, key)
	}
	return append(all, slices.Collect(maps.Values(open))...) // killed with their process
}

// clashes finds nodes on which two processes were at work at the same time.
func clashes(runs []helped, ended map[int]time.Time) (found []string) {
	for i, a := range runs {
		for _, b := range runs[:i] {
			if a.identity == b.identity && a.begin.Before(b.until(ended)) && b.begin.Before(a.until(ended)) {
				found = append(found, fmt.Sprintf("%s: processes %d and %d were at work at the same time", a.identity, a.pid, b.pid))
			}
		}
	}
	return found
}

// until is when a run of the helper or its process ended.
func (h helped) until(ended map[int]time.Time) time.Time {
	end, known := ended[h.pid]
	if h.end.IsZero() || known && end.Before(h.end) {
		return end
	}
	return h.end
}

func TestClashesAreSeen(t *testing.T) {
	t.Parallel()
	at := func(second int64) time.Time { return time.Unix(second, 0) }
	runs := []helped{{"a", 1, at(0), at(5)}, {"a", 2, at(4), at(6)}, {"b", 1, at(0), time.Time{}}, {"b", 2, at(4), at(6)}}
	if got := clashes(runs, map[int]time.Time{1: at(4)}); len(got) != 0 {
		t.Errorf("got %v, want nothing: process 1 had ended", got)
	}
	if got := clashes(runs, map[int]time.Time{1: at(5)}); len(got) != 2 {
		t.Errorf("got %v, want a and b", got)
	}
}

func TestConfigCheckLooksAtTheLoginToTheRecords(t *testing.T) {
	t.Parallel()
	l := startLab(t, lab.Options{Nodes: 1, Enrollment: lab.PKI, Hosts: 1})
	if r := runOn(t, l, 0, "config", "check"); r.code != 0 {
		t.Errorf("got exit code %d, want 0\n%s%s", r.code, r.stdout, r.stderr)
	}
	changeRecords("plugin.security.file.key", "DIR/keys/nowhere.key")(t, l)
	for _, args := range [][]string{{"config", "check"}, {"once"}} {
		if r := runOn(t, l, 0, args...); r.code != 2 || !strings.Contains(r.stdout+r.stderr, "records.conf") || !strings.Contains(r.stdout+r.stderr, "nowhere.key") {
			t.Errorf("%v: got exit code %d, want 2 and both files\n%s%s", args, r.code, r.stdout, r.stderr)
		}
	}
}

func TestOneOfTheHostsLeadsAndTheNextKnowsItsHolds(t *testing.T) {
	t.Parallel()
	l := startLab(t, lab.Options{Nodes: 1, Enrollment: lab.Issuer, Hosts: 2, Upgrades: true})
	if err := l.SetConfig(map[string]any{"leader_election": true, "upgrades_repository": "http://127.0.0.1:1"}); err != nil {
		t.Fatal(err)
	}
	name := l.NodeNames()[0]
	if err := l.Behave(name, lab.Behaviour{Do: lab.Upgrade, Version: "9.9.9"}); err != nil {
		t.Fatal(err)
	}
	if r := runOn(t, l, 0, "once"); r.code != 3 { // a failed upgrade is held
		t.Fatalf("got exit code %d, want 3\n%s%s", r.code, r.stdout, r.stderr)
	}
	var r ran
	await(t, "the other host's turn", func() bool {
		r = runOn(t, l, 1, "once")
		return r.code != 4
	})
	if r.code != 0 || !strings.Contains(r.stdout, "held for a moment") {
		t.Errorf("the next leader: got exit code %d, want 0 and the hold\n%s%s", r.code, r.stdout, r.stderr)
	}
}
