package provision_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"choria-provision/config"
	"choria-provision/internal/fake"
	"choria-provision/output"
	"choria-provision/provision"
	"choria-provision/provision/installstate"

	wire "github.com/choria-io/go-choria/providers/agent/mcorpc/golang/provision"
	"github.com/choria-io/tokens"
)

var updateFaults = flag.Bool("update", false, "rewrite docs/faults.md")

// fault is a column of the matrix: what one call meets. A cell is one run over
// the node that meets it and another that does not.
type fault struct {
	name   string
	script func(c *cell) fake.Script
}

var faults = []fault{
	{"no reply", always(fake.Silent)},
	{"late reply: after its time, the next in time", first(func(*cell) ([]provision.Reply, error) { return nil, provision.ErrNoReply })},
	{"refused", always(fake.Refusing("disk full"))},
	{"refused, then good", first(func(*cell) ([]provision.Reply, error) { return []provision.Reply{{Message: "disk full"}}, nil })},
	{"two replies", always(fake.Twice)},
	{"garbage", always(fake.Saying(`["no"]`))},
	{"empty", always(fake.Saying(``))},
	{"huge: 1 MiB", always(fake.Saying(`{"padding":"` + strings.Repeat("x", 1<<20) + `"}`))},
	{"not connected", always(gone)},
	{"node back without its key", comesBack(provision.ErrGone)},
	{"broker and node back, the node without its key", comesBack(provision.ErrNetwork)},
	{"broker gone", func(c *cell) fake.Script {
		return func(context.Context, int, func() provision.Reply) ([]provision.Reply, error) {
			c.away.Store(true)
			return nil, provision.ErrNetwork
		}
	}},
}

func always(s fake.Script) func(*cell) fake.Script { return func(*cell) fake.Script { return s } }

// first has the first attempt meet the fault and later ones get their reply.
func first(met func(*cell) ([]provision.Reply, error)) func(*cell) fake.Script {
	return func(c *cell) fake.Script {
		return func(_ context.Context, number int, ok func() provision.Reply) ([]provision.Reply, error) {
			if number == 1 {
				return met(c)
			}
			return []provision.Reply{ok()}, nil
		}
	}
}

// comesBack has the node restart when it is called first, which ends with err:
// what it was given is gone, so that it refuses a restart as go-choria's agent
// does, until it has a key and a configuration again.
func comesBack(err error) func(*cell) fake.Script {
	return func(c *cell) fake.Script {
		return func(_ context.Context, number int, ok func() provision.Reply) ([]provision.Reply, error) {
			switch {
			case number == 1:
				c.key = ""
				return nil, err
			case c.row.action == restart && c.key == "":
				return []provision.Reply{{Message: "Configuration /etc/choria/server.conf could not be parsed, restart cannot continue"}}, nil
			}
			return []provision.Reply{ok()}, nil
		}
	}
}

// faultyCall is a row: a call, in a network and with a helper that lead to it.
type faultyCall struct {
	action string
	config func(*config.Config)
	answer provision.Answer
}

func faultyCalls(seed string) []faultyCall {
	issuing := func(c *config.Config) {
		c.Features.JWT, c.Features.ED25519, c.JWTSigningKey = true, true, seed
	}
	upgrading := func(c *config.Config) {
		issuing(c)
		c.Features.Upgrades, c.UpgradesRepository = true, "http://127.0.0.1/releases"
	}
	issue := provision.Answer{Configuration: issuerSettings()}
	return []faultyCall{
		{jwt, issuing, issue},
		{gen25519, issuing, issue},
		{inventory, issuing, issue},
		{gencsr, func(c *config.Config) { c.Features.JWT, c.Features.PKI = true, true }, provision.Answer{Defer: true, Message: "signed by hand"}},
		{update, upgrading, provision.Answer{Upgrade: "0.30.0"}},
		{configure, issuing, issue},
		{restart, issuing, issue},
		{shutdown, issuing, provision.Answer{Shutdown: true, Message: "decommissioned"}},
	}
}

// cell is one run of the matrix.
type cell struct {
	*bench
	row  faultyCall
	key  string      // the node's, empty while it has none
	away atomic.Bool // the broker
}

// keepKey has the node remember the key that it made last.
func (c *cell) keepKey(t *testing.T, s fake.Script) fake.Script {
	return func(ctx context.Context, number int, ok func() provision.Reply) ([]provision.Reply, error) {
		replies, err := s(ctx, number, ok)
		var reply wire.ED25519Reply
		if len(replies) == 1 && replies[0].OK && json.Unmarshal(replies[0].Data, &reply) == nil {
			c.key = reply.PublicKey
		}
		return replies, err
	}
}

func (c *cell) connected(context.Context, bool) error {
	if c.away.Load() {
		return provision.ErrNetwork
	}
	return nil
}

const unharmed = "other.example.net"

// meet runs the cell and returns its line of the document.
func (f fault) meet(t *testing.T, row faultyCall) string {
	t.Helper()
	c := &cell{bench: newBench(t, row.config), row: row}
	c.fleet.Site.Upgradable = true
	c.Connected = c.connected
	good := func(_ context.Context, _ int, ok func() provision.Reply) ([]provision.Reply, error) {
		return []provision.Reply{ok()}, nil
	}
	c.fleet.On(node1, gen25519, c.keepKey(t, good))
	if row.action == gen25519 {
		c.fleet.On(node1, gen25519, c.keepKey(t, f.script(c)))
	} else {
		c.fleet.On(node1, row.action, f.script(c))
	}
	c.Helper = helperFunc(func(_ context.Context, in provision.HelperInput) (provision.Answer, error) {
		answer := row.answer
		if answer.Configuration != nil {
			answer.Configuration = maps.Clone(answer.Configuration)
			answer.Configuration["identity"] = in.Identity
		}
		return answer, nil
	})

	sum := c.run(t.Context(), node1, unharmed)
	got := resultOf(t, sum, node1)
	c.checkOther(t, sum)
	c.checkKey(t, got)
	tries := 0
	for _, action := range c.fleet.Actions(node1) {
		if action == row.action {
			tries++
		}
	}
	at := ""
	if got.Err != nil {
		at = " at " + got.Step
	}
	cause, advice := output.Hint(got.Err)
	return fmt.Sprintf("| %s | %s%s | %d | %s | %s | %s |\n", f.name, got.Outcome, at, tries, c.phase(t), cause, advice)
}

// checkOther holds that the node beside met nothing, or was left to the next run
// together with all others.
func (c *cell) checkOther(t *testing.T, sum provision.Summary) {
	t.Helper()
	for _, result := range sum.Results {
		if result.Node == unharmed && result.Err != nil && !c.away.Load() {
			t.Errorf("the other node: got %s (%v), want it unharmed", result.Outcome, result.Err)
		}
		if result.Node == unharmed && result.Outcome == provision.Failed {
			t.Errorf("the other node: got failed (%v), want no fault of its own", result.Err)
		}
	}
	if c.away.Load() && !errors.Is(sum.StateErr, provision.ErrNetwork) {
		t.Errorf("got %v as the end of the run, want the broker", sum.StateErr)
	}
}

// checkKey holds that a node in service has credentials for the key it has.
func (c *cell) checkKey(t *testing.T, got provision.Result) {
	t.Helper()
	configured, times := c.fleet.Configured(node1)
	if got.Outcome != provision.Provisioned || times == 0 {
		return
	}
	claims, err := tokens.ParseServerTokenUnverified(configured.ServerJWT)
	if err != nil {
		t.Fatal(err)
	}
	if c.key == "" || claims.PublicKey != c.key {
		t.Errorf("provisioned with a server JWT for key %q, the node has %q", claims.PublicKey, c.key)
	}
}

func (c *cell) phase(t *testing.T) string {
	t.Helper()
	record, err := c.Store.Load(node1)
	switch {
	case errors.Is(err, installstate.ErrNotFound):
		return "none"
	case err != nil:
		t.Fatal(err)
	case !record.ShutDown.IsZero():
		return string(record.Phase) + ", shut down"
	case record.Phase == installstate.Installing && !record.RestartRequested.IsZero():
		return string(record.Phase) + ", restart requested"
	}
	return string(record.Phase)
}

// TestFaultMatrix runs every call against every fault and holds docs/faults.md
// to what happened.
func TestFaultMatrix(t *testing.T) {
	t.Parallel()
	seed := filepath.Join(t.TempDir(), "seed")
	if err := os.WriteFile(seed, []byte(strings.Repeat("5e", ed25519.SeedSize)), 0o600); err != nil {
		t.Fatal(err)
	}
	intro, err := os.ReadFile(filepath.Join("testdata", "faults.md"))
	if err != nil {
		t.Fatal(err)
	}
	document := bytes.NewBuffer(intro)
	for _, row := range faultyCalls(seed) {
		fmt.Fprintf(document, "\n## %s\n\n| fault | outcome | tries | record | cause | advice |\n|---|---|---|---|---|---|\n", row.action)
		for _, f := range faults {
			t.Run(row.action+" "+f.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { document.WriteString(f.meet(t, row)) })
			})
		}
	}
	path := filepath.Join("..", "docs", "faults.md")
	if *updateFaults {
		if err := os.WriteFile(path, document.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, document.Bytes()) {
		t.Errorf("docs/faults.md is not what happens (%v): read the difference after running this test with -update", err)
	}
}
