package commands

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"choria-provision/internal/lab"
)

func TestHostsThatWatchOutliveABrokersRestart(t *testing.T) {
	t.Parallel()
	l := startLab(t, lab.Options{Nodes: 6, Enrollment: lab.Issuer, Hosts: 2})
	log := filepath.Join(t.TempDir(), "helpers")
	if err := l.SetConfig(map[string]any{"workers": 1, "rpc_timeout": "3s", "helper": loggingHelper(t, l, log)}); err != nil {
		t.Fatal(err)
	}
	first, second := startWatchWith(t, l, l.HostExports(0)), startWatchWith(t, l, l.HostExports(1))
	await(t, "work", func() bool { return len(readHelpers(t, log)) > 0 })
	if err := l.RestartBroker(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, name := range l.NodeNames() {
		awaitAction(t, l, name, "choria_provision#restart")
	}
	if got := inService(t, l); len(got) != 6 {
		t.Errorf("in service: %v, want all", got)
	}
	for _, clash := range clashes(readHelpers(t, log), nil) {
		t.Error(clash)
	}
	for _, w := range []*watcher{first, second} {
		if code := w.signal(syscall.SIGTERM); code != 0 {
			t.Errorf("got exit code %d, want 0", code)
		}
	}
}

// TestAHostThatStoodStillActsNoMore stops a host until another one has its node.
func TestAHostThatStoodStillActsNoMore(t *testing.T) {
	t.Parallel()
	l := startLab(t, lab.Options{Nodes: 1, Enrollment: lab.PKI, Hosts: 2})
	name := l.NodeNames()[0]
	gate := filepath.Join(t.TempDir(), "gate")
	script := filepath.Join(t.TempDir(), "helper.sh")
	text := "echo > " + gate + ".$PROVISION_HOST\nif test $PROVISION_HOST = host1; then until test -e " + gate + "; do sleep 0.05; done; fi\nexec " + filepath.Join(l.Dir(), "bin", "lab-helper") + "\n"
	if err := os.WriteFile(script, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := l.SetConfig(map[string]any{"helper": "/bin/sh " + script, "helper_timeout": "5m"}); err != nil {
		t.Fatal(err)
	}
	frozen := startWatchWith(t, l, l.HostExports(0))
	await(t, "the helper", func() bool { _, err := os.Stat(gate + ".host1"); return err == nil })
	if err := frozen.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	await(t, "the other host's turn", func() bool {
		if r := runOn(t, l, 1, "once"); r.code != 0 {
			t.Fatalf("got exit code %d\n%s%s", r.code, r.stdout, r.stderr)
		}
		return slices.Contains(asked(t, l, name), "choria_provision#restart")
	})
	if got := inService(t, l); len(got) != 1 {
		t.Errorf("in service: %v, want the node", got)
	}
	before := asked(t, l, name)
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := frozen.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	await(t, "the end of its claim", func() bool { return strings.Contains(frozen.said(), "claim on the node was lost") })
	if got := asked(t, l, name); len(got) != len(before) {
		t.Errorf("the host that had stood still asked for %v", got[len(before):])
	}
	if r := runOn(t, l, 1, "reset", name, "--reprovision"); r.code != 0 {
		t.Fatalf("got exit code %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	await(t, "another session of the host", func() bool { return strings.Contains(frozen.said(), "provisioned") })
	if code := frozen.signal(syscall.SIGTERM); code != 0 {
		t.Errorf("got exit code %d, want 0", code)
	}
}
