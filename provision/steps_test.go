package provision_test

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"choria-provision/config"
	"choria-provision/internal/fake"
	"choria-provision/provision"
	"choria-provision/provision/trust"

	wire "github.com/choria-io/go-choria/providers/agent/mcorpc/golang/provision"
	"github.com/choria-io/tokens"
	"github.com/google/go-cmp/cmp"
)

const (
	jwt       = "choria_provision#jwt"
	gen25519  = "choria_provision#gen25519"
	inventory = "rpcutil#inventory"
	gencsr    = "choria_provision#gencsr"
	update    = "choria_provision#release_update"
	configure = "choria_provision#configure"
	restart   = "choria_provision#restart"
	shutdown  = "choria_provision#shutdown"
)

func repeat(action string, times int) []string {
	return strings.Split(strings.TrimSuffix(strings.Repeat(action+"\n", times), "\n"), "\n")
}

func join(lists ...[]string) (all []string) {
	for _, list := range lists {
		all = append(all, list...)
	}
	return all
}

func TestSequence(t *testing.T) {
	t.Parallel()
	withJWT := func(c *config.Config) { c.Features.JWT = true }
	withPKI := func(c *config.Config) { c.Features.JWT, c.Features.PKI = true, true }
	upgrading := func(c *config.Config) { c.Features.Upgrades, c.UpgradesRepository = true, "http://127.0.0.1/releases" }
	optionally := func(c *config.Config) { upgrading(c); c.UpgradesOptional = true }
	withIssuer := func(c *config.Config) { c.Features.JWT, c.Features.ED25519 = true, true }
	seed := filepath.Join(t.TempDir(), "seed")
	if err := os.WriteFile(seed, []byte(strings.Repeat("5e", ed25519.SeedSize)), 0o600); err != nil {
		t.Fatal(err)
	}
	issuing := func(c *config.Config) { withIssuer(c); c.JWTSigningKey = seed }
	toIssue := provision.Answer{Configuration: issuerSettings()}
	type script = func(*fake.Fleet)
	on := func(action string, s fake.Script) script {
		return func(f *fake.Fleet) { f.On("n1.example.net", action, s) }
	}
	upgradable := func(f *fake.Fleet) { f.Site.Upgradable = true }
	plain := provision.Answer{Configuration: settings()}
	toRelease := provision.Answer{Configuration: settings(), Upgrade: "0.30.0"}

	tests := []struct {
		name    string
		config  func(*config.Config)
		scripts []script
		answer  provision.Answer
		helper  error
		actions []string
		outcome provision.Outcome
		step    string
		err     error
		message string
	}{
		{name: "plain node", answer: plain, actions: []string{inventory, configure, restart}, outcome: provision.Provisioned},
		{name: "with jwt", config: withJWT, answer: plain, actions: []string{jwt, inventory, configure, restart}, outcome: provision.Provisioned},

		{name: "jwt is tried three times", config: withJWT, scripts: []script{on(jwt, fake.Silent)}, actions: repeat(jwt, 3), outcome: provision.Failed, step: "jwt", err: provision.ErrNoReply},
		{name: "jwt comes at the third try", config: withJWT, scripts: []script{on(jwt, fake.FailingFirst(2))}, answer: plain, actions: join(repeat(jwt, 3), []string{inventory, configure, restart}), outcome: provision.Provisioned},
		{name: "a token that is refused is not tried again", config: withJWT, scripts: []script{on(jwt, fake.Refusing("Incorrect provision token supplied"))}, actions: []string{jwt}, outcome: provision.Failed, step: "jwt", err: provision.ErrToken},
		{name: "a node that another provisioner holds is left alone", config: withJWT, scripts: []script{on(jwt, fake.Refusing("Could not obtain provisioning lock"))}, actions: []string{jwt}, outcome: provision.Skipped, step: "jwt", err: provision.ErrBusy},
		{name: "twins", config: withJWT, scripts: []script{on(jwt, fake.Twice)}, actions: []string{jwt}, outcome: provision.Failed, step: "jwt", err: provision.ErrTwins},
		{name: "a jwt that is none", config: withJWT, scripts: []script{on(jwt, fake.Saying(`{"jwt":"x.y.z","ecdh_public":"00"}`))}, actions: []string{jwt}, outcome: provision.Failed, step: "verify jwt", err: trust.ErrJWT},
		{name: "a jwt reply of another shape", config: withJWT, scripts: []script{on(jwt, fake.Saying(`["no"]`))}, actions: []string{jwt}, outcome: provision.Failed, step: "jwt", err: provision.ErrNonsense},

		{name: "inventory is tried five times", scripts: []script{on(inventory, fake.Silent)}, actions: repeat(inventory, 5), outcome: provision.Failed, step: "inventory", err: provision.ErrNoReply},
		{name: "an inventory that is a list", scripts: []script{on(inventory, fake.Saying(`[1]`))}, actions: []string{inventory}, outcome: provision.Failed, step: "inventory", err: provision.ErrNonsense},
		{name: "an inventory without data", scripts: []script{on(inventory, fake.Saying(``))}, actions: []string{inventory}, outcome: provision.Failed, step: "inventory", err: provision.ErrNonsense},

		{name: "a csr that gets no reply starts the sequence again", config: withPKI, scripts: []script{on(gencsr, fake.Silent)}, actions: repeatAll(4, jwt, inventory, gencsr), outcome: provision.Failed, step: "csr", err: provision.ErrNoReply},
		{name: "a csr that is refused is not asked for again", config: withPKI, scripts: []script{on(gencsr, fake.Refusing("no"))}, actions: []string{jwt, inventory, gencsr}, outcome: provision.Failed, step: "csr", err: provision.ErrRefused},
		{name: "a csr that comes in the second pass", config: withPKI, scripts: []script{on(gencsr, fake.FailingFirst(1))}, answer: provision.Answer{Defer: true}, actions: repeatAll(2, jwt, inventory, gencsr), outcome: provision.Deferred, step: "helper"},
		{name: "a node that came back without its ECDH key", config: withJWT, answer: plain, scripts: []script{on(configure, lostThenRefused(5))}, actions: join([]string{jwt, inventory}, repeat(configure, 5), []string{jwt, inventory, configure, restart}), outcome: provision.Provisioned},
		{name: "a node that came back without its configuration", config: withJWT, answer: plain, scripts: []script{on(restart, lostThenRefused(3))}, actions: []string{jwt, inventory, configure, restart, restart, restart, jwt, inventory, configure, restart}, outcome: provision.Provisioned},
		{name: "a csr that is none", config: withPKI, scripts: []script{on(gencsr, fake.Saying(`{"csr":"----","public_key":"","ssldir":"/x"}`))}, actions: []string{jwt, inventory, gencsr}, outcome: provision.Failed, step: "verify csr", err: trust.ErrCSR},
		{name: "pki without a certificate in the answer", config: withPKI, answer: plain, actions: []string{jwt, inventory, gencsr}, outcome: provision.Failed, step: "helper", err: provision.ErrHelperAnswer},

		{name: "the helper fails", helper: fmt.Errorf("%w: exit status 1", provision.ErrHelper), actions: []string{inventory}, outcome: provision.Failed, step: "helper", err: provision.ErrHelper},
		{name: "the helper defers", answer: provision.Answer{Defer: true, Message: "not yet"}, actions: []string{inventory}, outcome: provision.Deferred, step: "helper", message: "not yet"},
		{name: "the helper shuts down", answer: provision.Answer{Shutdown: true, Message: "old"}, actions: []string{inventory, shutdown}, outcome: provision.Shutdown, step: "helper", message: "old"},
		{name: "shutdown wins over defer", answer: provision.Answer{Shutdown: true, Defer: true}, actions: []string{inventory, shutdown}, outcome: provision.Shutdown, step: "helper"},
		{name: "a node that does not want to shut down is warned of", answer: provision.Answer{Shutdown: true}, scripts: []script{on(shutdown, fake.Refusing("no"))}, actions: repeatAfter(inventory, shutdown, 3), outcome: provision.Shutdown, step: "helper"},
		{name: "a node that cannot be shut down", answer: provision.Answer{Shutdown: true}, scripts: []script{on(shutdown, fake.Silent)}, actions: repeatAfter(inventory, shutdown, 3), outcome: provision.Failed, step: "helper", err: provision.ErrNoReply},
		{name: "a lost reply to shutdown", answer: provision.Answer{Shutdown: true, Message: "old"}, scripts: []script{on(shutdown, lostThenGone)}, actions: repeatAfter(inventory, shutdown, 3), outcome: provision.Shutdown, step: "helper", message: "old"},
		{name: "a node gone before shutdown", answer: provision.Answer{Shutdown: true}, scripts: []script{on(shutdown, gone)}, actions: repeatAfter(inventory, shutdown, 3), outcome: provision.Failed, step: "helper", err: provision.ErrGone},
		{name: "an answer without configuration", answer: provision.Answer{}, actions: []string{inventory}, outcome: provision.Failed, step: "helper", err: provision.ErrHelperAnswer},

		{name: "an upgrade ends the cycle", config: upgrading, scripts: []script{upgradable}, answer: toRelease, actions: []string{inventory, update}, outcome: provision.Upgraded, step: "upgrade"},
		{name: "the same release goes on", config: upgrading, scripts: []script{upgradable}, answer: provision.Answer{Configuration: settings(), Upgrade: "0.29.4"}, actions: []string{inventory, configure, restart}, outcome: provision.Provisioned},
		{name: "upgrades are off", scripts: []script{upgradable}, answer: toRelease, actions: []string{inventory, configure, restart}, outcome: provision.Provisioned},
		{name: "a node that cannot upgrade", config: upgrading, answer: toRelease, actions: []string{inventory}, outcome: provision.Failed, step: "upgrade", err: provision.ErrUpgrade},
		{name: "an upgrade that fails", config: upgrading, scripts: []script{upgradable, on(update, fake.Refusing("release v0.30.0 not found"))}, answer: toRelease, actions: join([]string{inventory}, repeat(update, 3)), outcome: provision.Failed, step: "upgrade", err: provision.ErrUpgrade},
		{name: "an optional upgrade that fails", config: func(c *config.Config) { upgrading(c); c.UpgradesOptional = true }, scripts: []script{upgradable, on(update, fake.Refusing("release v0.30.0 not found"))}, answer: toRelease, actions: join([]string{inventory}, repeat(update, 3), []string{configure, restart}), outcome: provision.Provisioned},

		{name: "an upgrade alone ends the cycle", config: upgrading, scripts: []script{upgradable}, answer: provision.Answer{Upgrade: "0.30.0"}, actions: []string{inventory, update}, outcome: provision.Upgraded, step: "upgrade"},
		{name: "an upgrade alone needs no certificate", config: func(c *config.Config) { upgrading(c); withPKI(c) }, scripts: []script{upgradable}, answer: provision.Answer{Upgrade: "0.30.0"}, actions: []string{jwt, inventory, gencsr, update}, outcome: provision.Upgraded, step: "upgrade"},
		{name: "an upgrade alone needs no server JWT", config: func(c *config.Config) { upgrading(c); withIssuer(c); c.JWTSigningKey = "/nonexistent" }, scripts: []script{upgradable}, answer: provision.Answer{Upgrade: "0.30.0"}, actions: []string{jwt, gen25519, inventory, update}, outcome: provision.Upgraded, step: "upgrade"},
		{name: "an upgrade alone that the node cannot do", config: upgrading, answer: provision.Answer{Upgrade: "0.30.0"}, actions: []string{inventory}, outcome: provision.Failed, step: "upgrade", err: provision.ErrUpgrade},
		{name: "an upgrade alone to the release that runs", config: upgrading, answer: provision.Answer{Upgrade: "0.29.4"}, actions: []string{inventory}, outcome: provision.Failed, step: "helper", err: provision.ErrHelperAnswer},
		{name: "an upgrade alone while upgrades are off", answer: provision.Answer{Upgrade: "0.30.0"}, actions: []string{inventory}, outcome: provision.Failed, step: "helper", err: provision.ErrHelperAnswer},
		{name: "an upgrade alone to no version", config: upgrading, scripts: []script{upgradable}, answer: provision.Answer{Upgrade: "0.30 or so"}, actions: []string{inventory}, outcome: provision.Failed, step: "helper", err: provision.ErrHelperAnswer},
		{name: "an optional upgrade alone that fails", config: optionally, scripts: []script{upgradable, on(update, fake.Refusing("release v0.30.0 not found"))}, answer: provision.Answer{Upgrade: "0.30.0"}, actions: join([]string{inventory}, repeat(update, 3)), outcome: provision.Failed, step: "upgrade", err: provision.ErrHelperAnswer},
		{name: "an optional upgrade that fails before a server JWT", config: func(c *config.Config) { optionally(c); withIssuer(c); c.JWTSigningKey = seed }, scripts: []script{upgradable, on(update, fake.Refusing("release v0.30.0 not found"))}, answer: provision.Answer{Configuration: issuerSettings(), Upgrade: "0.30.0"}, actions: join([]string{jwt, gen25519, inventory}, repeat(update, 3), []string{configure, restart}), outcome: provision.Provisioned},

		{name: "a node that may have lost its key at inventory starts again", config: issuing, answer: toIssue, scripts: []script{on(inventory, fake.FailingFirst(1))}, actions: []string{jwt, gen25519, inventory, inventory, jwt, gen25519, inventory, configure, restart}, outcome: provision.Provisioned},
		{name: "a node that may have lost its key at configure starts again", config: issuing, answer: toIssue, scripts: []script{on(configure, fake.FailingFirst(1))}, actions: []string{jwt, gen25519, inventory, configure, configure, jwt, gen25519, inventory, configure, restart}, outcome: provision.Provisioned},
		{name: "a node that was not connected at configure starts again", config: issuing, answer: toIssue, scripts: []script{on(configure, goneFirst)}, actions: []string{jwt, gen25519, inventory, configure, configure, jwt, gen25519, inventory, configure, restart}, outcome: provision.Provisioned},
		{name: "a reply that is lost while it makes its key", config: issuing, answer: toIssue, scripts: []script{on(gen25519, fake.FailingFirst(1))}, actions: []string{jwt, gen25519, gen25519, jwt, gen25519, inventory, configure, restart}, outcome: provision.Provisioned},
		{name: "replies that are lost in each pass", config: issuing, answer: toIssue, scripts: []script{on(inventory, lostEverySecond)}, actions: repeatAll(4, jwt, gen25519, inventory, inventory), outcome: provision.Failed, step: "inventory", err: provision.ErrNoReply},
		{name: "a node without a key has none to lose", answer: plain, scripts: []script{on(configure, fake.FailingFirst(1))}, actions: []string{inventory, configure, configure, restart}, outcome: provision.Provisioned},

		{name: "configure is tried five times", answer: plain, scripts: []script{on(configure, fake.Refusing("disk full"))}, actions: join([]string{inventory}, repeat(configure, 5)), outcome: provision.Failed, step: "configure", err: provision.ErrRefused},
		{name: "restart is tried three times", answer: plain, scripts: []script{on(restart, fake.Refusing("configuration enables provisioning"))}, actions: join([]string{inventory, configure}, repeat(restart, 3)), outcome: provision.Failed, step: "restart", err: provision.ErrRefused},
		{name: "a lost reply to restart", answer: plain, scripts: []script{on(restart, lostThenGone)}, actions: join([]string{inventory, configure}, repeat(restart, 3)), outcome: provision.Provisioned},
		{name: "a node gone before restart", answer: plain, scripts: []script{on(restart, gone)}, actions: join([]string{inventory, configure}, repeat(restart, 3)), outcome: provision.Failed, step: "restart", err: provision.ErrGone},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, tt.config)
				for _, script := range tt.scripts {
					script(b.fleet)
				}
				b.Helper = helperFunc(func(context.Context, provision.HelperInput) (provision.Answer, error) {
					return tt.answer, tt.helper
				})
				sum := b.run(t.Context(), "n1.example.net", "other.example.net")
				got := resultOf(t, sum, "n1.example.net")
				if diff := cmp.Diff(tt.actions, b.fleet.Actions("n1.example.net")); diff != "" {
					t.Errorf("calls (-want +got):\n%s", diff)
				}
				if got.Outcome != tt.outcome || got.Step != tt.step || got.Message != tt.message {
					t.Errorf("got %s at %q saying %q, want %s at %q saying %q (%v)", got.Outcome, got.Step, got.Message, tt.outcome, tt.step, tt.message, got.Err)
				}
				if !errors.Is(got.Err, tt.err) || (tt.err == nil) != (got.Err == nil) {
					t.Errorf("got error %v, want %v", got.Err, tt.err)
				}
				if got.Attempts != len(tt.actions) {
					t.Errorf("got %d attempts, want %d", got.Attempts, len(tt.actions))
				}
			})
		})
	}
}

func repeatAll(times int, actions ...string) (all []string) {
	for range times {
		all = append(all, actions...)
	}
	return all
}

func goneFirst(_ context.Context, number int, ok func() provision.Reply) ([]provision.Reply, error) {
	if number == 1 {
		return nil, provision.ErrGone
	}
	return []provision.Reply{ok()}, nil
}

// lostThenRefused is a node that restarts at the first call: it misses what that
// gave it and refuses, until the sequence has started again.
func lostThenRefused(tries int) fake.Script {
	return func(_ context.Context, number int, ok func() provision.Reply) ([]provision.Reply, error) {
		switch {
		case number == 1:
			return nil, provision.ErrNoReply
		case number <= tries:
			return []provision.Reply{{Message: "could not decrypt private key: private key not set"}}, nil
		}
		return []provision.Reply{ok()}, nil
	}
}

func lostEverySecond(_ context.Context, number int, ok func() provision.Reply) ([]provision.Reply, error) {
	if number%2 == 1 {
		return nil, provision.ErrNoReply
	}
	return []provision.Reply{ok()}, nil
}

// TestCredentialsFitTheKeyThatANodeCameBackWith has a node vanish at configure and
// come back without its key.
func TestCredentialsFitTheKeyThatANodeCameBackWith(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		seed := filepath.Join(t.TempDir(), "seed")
		if err := os.WriteFile(seed, []byte(strings.Repeat("5e", ed25519.SeedSize)), 0o600); err != nil {
			t.Fatal(err)
		}
		b := newBench(t, func(c *config.Config) {
			c.Features.JWT, c.Features.ED25519, c.JWTSigningKey = true, true, seed
		})
		var key string // the node's, empty while it has none
		b.fleet.On(node1, gen25519, func(_ context.Context, _ int, ok func() provision.Reply) ([]provision.Reply, error) {
			made := ok()
			var reply wire.ED25519Reply
			if err := json.Unmarshal(made.Data, &reply); err != nil {
				t.Error(err)
			}
			key = reply.PublicKey
			return []provision.Reply{made}, nil
		})
		b.fleet.On(node1, configure, func(_ context.Context, number int, ok func() provision.Reply) ([]provision.Reply, error) {
			if number == 1 {
				key = "" // it restarts
				return nil, provision.ErrNoReply
			}
			return []provision.Reply{ok()}, nil
		})
		b.Helper = helperFunc(func(context.Context, provision.HelperInput) (provision.Answer, error) {
			return provision.Answer{Configuration: issuerSettings()}, nil
		})
		result := resultOf(t, b.run(t.Context(), node1), node1)
		configured, _ := b.fleet.Configured(node1)
		claims, err := tokens.ParseServerTokenUnverified(configured.ServerJWT)
		if err != nil {
			t.Fatal(err)
		}
		if result.Outcome != provision.Provisioned || key == "" || claims.PublicKey != key {
			t.Errorf("got %s with a server JWT for key %q, want provisioned with one for %q", result.Outcome, claims.PublicKey, key)
		}
		said := 0
		for _, notice := range result.Notices {
			if strings.Contains(notice, "starts again") {
				said++
			}
		}
		if said != 1 || len(result.Notices) != 3 {
			t.Errorf("got notices %q, want each of the three once, one of them that it starts again", result.Notices)
		}
	})
}

func repeatAfter(first, action string, times int) []string {
	return append([]string{first}, repeat(action, times)...)
}

func lostThenGone(_ context.Context, number int, _ func() provision.Reply) ([]provision.Reply, error) {
	if number == 1 {
		return nil, provision.ErrNoReply
	}
	return nil, provision.ErrGone
}

func gone(context.Context, int, func() provision.Reply) ([]provision.Reply, error) {
	return nil, provision.ErrGone
}

func resultOf(t *testing.T, sum provision.Summary, name string) provision.Result {
	t.Helper()
	for _, result := range sum.Results {
		if result.Node == name {
			return result
		}
	}
	t.Fatalf("no result for %s in %+v", name, sum)
	return provision.Result{}
}

// refusals counts the answers that were refused.
func (b *bench) refusals() (count int) {
	for _, event := range b.events {
		if _, refused := event.(provision.AnswerRefused); refused {
			count++
		}
	}
	return count
}

func TestRefusedAnswersAreTold(t *testing.T) {
	t.Parallel()
	upgrading := func(c *config.Config) {
		c.Features.Upgrades, c.UpgradesOptional, c.UpgradesRepository = true, true, "http://127.0.0.1/releases"
	}
	tests := []struct {
		name   string
		answer provision.Answer
		want   int
	}{
		{"usable", provision.Answer{Configuration: settings()}, 0},
		{"deferred", provision.Answer{Defer: true}, 0},
		{"empty", provision.Answer{}, 1},
		{"refused once the upgrade failed", provision.Answer{Upgrade: "0.30.0"}, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, upgrading)
				b.fleet.Site.Upgradable = true
				b.fleet.On("n1.example.net", update, fake.Refusing("release not found"))
				b.Helper = answering(tt.answer)
				b.run(t.Context(), "n1.example.net")
				if got := b.refusals(); got != tt.want {
					t.Errorf("got %d refused answers, want %d", got, tt.want)
				}
			})
		})
	}
}

// TestAnAnnouncedStartStartsTheSequenceAgain has a node restart between two calls,
// while the helper is asked: no call notices.
func TestAnAnnouncedStartStartsTheSequenceAgain(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		starts int // how many answers of the helper the node announces a start after
		want   []string
	}{
		{"once", 1, []string{jwt, gen25519, inventory, jwt, gen25519, inventory, configure, restart}},
		{"made up again and again", 100, append(repeatAll(4, jwt, gen25519, inventory), configure, restart)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			seed := filepath.Join(t.TempDir(), "seed")
			if err := os.WriteFile(seed, []byte(strings.Repeat("5e", ed25519.SeedSize)), 0o600); err != nil {
				t.Fatal(err)
			}
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, func(c *config.Config) {
					c.Features.JWT, c.Features.ED25519, c.JWTSigningKey = true, true, seed
				})
				b.Announcements = new(provision.Announcements)
				asked := 0
				b.Helper = helperFunc(func(context.Context, provision.HelperInput) (provision.Answer, error) {
					asked++
					if asked <= tt.starts {
						b.Announcements.Started(node1)
						b.Announcements.Started("other.example.net")
					}
					return provision.Answer{Configuration: issuerSettings()}, nil
				})
				result := resultOf(t, b.run(t.Context(), node1), node1)
				if diff := cmp.Diff(tt.want, b.fleet.Actions(node1)); diff != "" || result.Outcome != provision.Provisioned {
					t.Errorf("got %s (%v); calls (-want +got):\n%s", result.Outcome, result.Err, diff)
				}
			})
		})
	}
}
