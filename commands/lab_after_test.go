package commands

import (
	"strings"
	"testing"

	"choria-provision/internal/lab"
)

func TestStatusRemembersNodesThatALaterRunDidNotComeTo(t *testing.T) {
	t.Parallel()
	l := startLab(t, lab.Options{Nodes: 3, Enrollment: lab.Issuer})
	names := l.NodeNames()
	for name, behaviour := range map[string]lab.Behaviour{
		names[0]: {Do: lab.Defer, Message: "no address yet"}, names[1]: {Do: lab.Fail, Message: "unknown host"}, names[2]: {Do: lab.Defer},
	} {
		if err := l.Behave(name, behaviour); err != nil {
			t.Fatal(err)
		}
	}
	if r := runIn(t, l, "once"); r.code != 3 {
		t.Fatalf("got exit code %d\n%s", r.code, r.stderr)
	}
	if err := l.Behave(names[2], lab.Behaviour{}); err != nil {
		t.Fatal(err)
	}
	if r := runIn(t, l, "node", names[2]); r.code != 0 {
		t.Fatalf("got exit code %d\n%s", r.code, r.stderr)
	}
	said := runIn(t, l, "status").stdout
	for _, want := range []string{"waiting: 1 node", "no address yet", "failing: 1 node", "unknown host", "held: 1 node"} {
		if !strings.Contains(said, want) {
			t.Errorf("status does not say %q:\n%s", want, said)
		}
	}
	if strings.Contains(said, "interrupted") {
		t.Errorf("status calls a node interrupted:\n%s", said)
	}
}

func TestABrokerLostInMidRunIsNamedAndTheRunEnds(t *testing.T) {
	t.Parallel()
	l := startLab(t, lab.Options{Nodes: 2, Enrollment: lab.PKI})
	wire := startProxy(t, strings.TrimPrefix(l.BrokerURL(), "nats://"))
	if err := l.SetChoria(map[string]string{"plugin.choria.middleware_hosts": "nats://" + wire.listener.Addr().String()}); err != nil {
		t.Fatal(err)
	}
	release, started := heldHelper(t, l, map[string]any{"connect_timeout": "3s", "workers": 2})
	cmd, stdout, stderr := provisionCommand(t, l, "once", "--output", "json")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	await(t, "both helpers", func() bool { return started() == 2 })
	wire.listener.Close()
	wire.cut()
	release()
	r := ended(t, cmd.Wait(), stdout, stderr)
	if r.code != 1 || strings.Count(r.stdout, `"cause": "network"`) != 3 || strings.Count(r.stdout, `"outcome": "skipped"`) != 2 {
		t.Errorf("got exit code %d, want 1 and the broker named for the run and for both nodes, which did nothing wrong\n%s%s", r.code, r.stdout, r.stderr)
	}
	if strings.Contains(r.stderr, "not started") {
		t.Errorf("got %q, want no word of nodes that were not started: there are none", r.stderr)
	}
	if r := runIn(t, l, "status"); !strings.Contains(r.stdout, "interrupted: 2 nodes") || !strings.Contains(r.stdout, "did not come back in 3s") {
		t.Errorf("status says\n%s\nwant both nodes as interrupted, and why", r.stdout)
	}
}
