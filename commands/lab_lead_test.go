package commands

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"choria-provision/config"
	"choria-provision/internal/lab"
	"choria-provision/internal/network"
	"choria-provision/provision/trust"

	"github.com/choria-io/go-choria/inter"
	"github.com/nats-io/nats.go"
	"github.com/sirupsen/logrus"
)

// provisionerIn connects to the lab as its provisioner does.
func provisionerIn(t *testing.T, l *lab.Lab) *network.Conn {
	t.Helper()
	cfg, _, err := config.Load(l.ConfigFile(), config.Overrides{Getenv: os.Getenv, Keys: trust.Keys()})
	if err != nil {
		t.Fatal(err)
	}
	client, _, err := cfg.Choria(l.ChoriaFile(), func(name string) string { return map[string]string{"USER": "tester"}[name] })
	if err != nil {
		t.Fatal(err)
	}
	client.CustomLogger = logrus.New()
	client.CustomLogger.SetOutput(t.Output())
	conn, err := network.Dial(t.Context(), client, "test", 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return conn
}

// connectorIn is a connection of go-choria's own, configured as conn is.
func connectorIn(t *testing.T, conn *network.Conn) inter.Connector {
	t.Helper()
	fw := conn.Framework()
	connector, err := fw.NewConnector(t.Context(), fw.MiddlewareServers, "test", fw.Logger("test"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(connector.Close)
	return connector
}

func electing(t *testing.T, more map[string]any) *lab.Lab {
	t.Helper()
	l := startLab(t, lab.Options{Nodes: 2, Enrollment: lab.Issuer})
	keys := map[string]any{"leader_election": true, "workers": 1}
	for key, value := range more {
		keys[key] = value
	}
	if err := l.SetConfig(keys); err != nil {
		t.Fatal(err)
	}
	return l
}

func TestTheLeaderOfGoChoriasOwnElectionIsRespected(t *testing.T) {
	t.Parallel()
	l := electing(t, nil)
	conn := provisionerIn(t, l)
	won := make(chan struct{}, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	election, err := conn.Framework().NewElection(ctx, connectorIn(t, conn), "provisioner", true, leads(won)...)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- election.Start(ctx) }()
	select {
	case <-won:
	case <-time.After(patience):
		t.Fatal("go-choria's election was not won")
	}

	before := tree(t, l.StateDir())
	r := runIn(t, l, "once")
	if r.code != 4 || !strings.Contains(r.stderr, "another instance leads") {
		t.Errorf("got exit code %d, want 4 and who leads\n%s", r.code, r.stderr)
	}
	if r := runIn(t, l, "once", "--unattended"); r.code != 0 || r.stdout != "" {
		t.Errorf("unattended: got exit code %d, %q, want 0 and nothing on stdout", r.code, r.stdout)
	}
	for name := range tree(t, l.StateDir()) {
		if _, known := before[name]; !known && (strings.Contains(name, "last-run") || strings.Contains(name, "counters")) {
			t.Errorf("a standby left %s", name)
		}
	}
	for _, name := range l.NodeNames() {
		if got := asked(t, l, name); len(got) != 0 {
			t.Errorf("%s was asked for %v by a standby", name, got)
		}
	}
	if r := runIn(t, l, "node", l.NodeNames()[0]); r.code != 0 {
		t.Errorf("an operator's node beside another leader: got exit code %d\n%s", r.code, r.stderr)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Logf("the election ended with: %v", err)
	}
}

func TestTheLeaseIsOneHostsAndTheNextRunsThere(t *testing.T) {
	t.Parallel()
	l := electing(t, map[string]any{"helper_timeout": "1m"})
	names := l.NodeNames()
	if err := l.Behave("*", lab.Behaviour{Do: lab.Defer, Message: "later"}); err != nil {
		t.Fatal(err)
	}
	for range 3 { // one after another, without waiting for a lease to expire
		if r := runIn(t, l, "once"); r.code != 0 {
			t.Fatalf("got exit code %d, want 0\n%s", r.code, r.stderr)
		}
	}
	elsewhere := filepath.Join(t.TempDir(), "state")
	if r := runIn(t, l, "once", "--state-dir", elsewhere); r.code != 4 {
		t.Errorf("another host: got exit code %d, want 4\n%s", r.code, r.stderr)
	}
	// the entry expires with the bucket's TTL, and the other host gets its turn
	await(t, "the other host's turn", func() bool { return runIn(t, l, "once", "--state-dir", elsewhere).code == 0 })
	if r := runIn(t, l, "once"); r.code != 4 {
		t.Errorf("the first host, after the other: got exit code %d, want 4\n%s", r.code, r.stderr)
	}
	if got := asked(t, l, names[0]); len(got) == 0 {
		t.Error("nobody was asked for anything")
	}
}

func TestALeaseLostInMidRunEndsAtTheNextCall(t *testing.T) {
	t.Parallel()
	// This helper waits for a file, so that the test decides when it answers.
	answer := filepath.Join(t.TempDir(), "answer")
	script := filepath.Join(t.TempDir(), "helper.sh")
	l := electing(t, map[string]any{"helper_timeout": "1m", "helper": "/bin/sh " + script})
	real := filepath.Join(l.Dir(), "bin", "lab-helper")
	text := "until test -e " + answer + "; do sleep 0.05; done\nexec " + real + "\n"
	if err := os.WriteFile(script, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	cmd, stdout, _ := provisionCommand(t, l, "once", "--output", "json")
	heard, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	defer heard.Close()
	cmd.Stderr = heard
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	await(t, "an inventory", func() bool {
		return len(asked(t, l, l.NodeNames()[0]))+len(asked(t, l, l.NodeNames()[1])) >= 3
	})
	conn := provisionerIn(t, l)
	stream, err := connectorIn(t, conn).Nats().JetStream(nats.APIPrefix("choria.streams"))
	if err != nil {
		t.Fatal(err)
	}
	bucket, err := stream.KeyValue("CHORIA_LEADER_ELECTION")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bucket.Put("provisioner", []byte("usurper")); err != nil {
		t.Fatal(err)
	}
	said := func() string { text, _ := os.ReadFile(heard.Name()); return string(text) }
	await(t, "the loss", func() bool { return strings.Contains(said(), "the leadership was lost") })
	if err := os.WriteFile(answer, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r := ended(t, cmd.Wait(), stdout, bytes.NewBufferString(said()))
	if r.code != 5 || !strings.Contains(r.stdout, `"not_leader"`) {
		t.Errorf("got exit code %d, want 5 and the cause\n%s%s", r.code, r.stdout, r.stderr)
	}
	for _, name := range l.NodeNames() {
		for _, action := range asked(t, l, name) {
			if action == "choria_provision#configure" || action == "choria_provision#restart" {
				t.Errorf("%s was asked for %s after the leadership was lost", name, action)
			}
		}
	}
}
