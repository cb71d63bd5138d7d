package provision_test

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"choria-provision/config"
	"choria-provision/discovery"
	"choria-provision/internal/fake"
	"choria-provision/provision"
	"choria-provision/provision/installstate"
)

// helperFunc is a helper that is a function.
type helperFunc func(context.Context, provision.HelperInput) (provision.Answer, error)

func (f helperFunc) Answer(ctx context.Context, in provision.HelperInput) (provision.Answer, error) {
	return f(ctx, in)
}

func answering(a provision.Answer) helperFunc {
	return func(context.Context, provision.HelperInput) (provision.Answer, error) { return a, nil }
}

// obliging answers for whichever node is asked about.
func obliging(_ context.Context, in provision.HelperInput) (provision.Answer, error) {
	return provision.Answer{Configuration: settings("identity", in.Identity)}, nil
}

func settings(more ...string) map[string]string {
	all := map[string]string{"identity": "n1.example.net", "plugin.choria.server.provision": "false", "plugin.security.provider": "file", "plugin.choria.middleware_hosts": "nats://127.0.0.1:4222"}
	for i := 0; i+1 < len(more); i += 2 {
		all[more[i]] = more[i+1]
	}
	return all
}

// issuerSettings are those of a node that is to use its server JWT.
func issuerSettings() map[string]string {
	return settings("plugin.security.provider", "choria",
		"plugin.security.choria.token_file", "/etc/choria/server.jwt",
		"plugin.security.choria.seed_file", "/etc/choria/server.seed",
		"plugin.security.choria.trusted_signers", strings.Repeat("ab", ed25519.PublicKeySize))
}

// bench is a runner over a fake fleet, with everything it told.
type bench struct {
	*provision.Runner
	fleet *fake.Fleet

	mu     sync.Mutex
	events []any
}

func (b *bench) observe(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.events = append(b.events, event)
}

func newBench(t *testing.T, change func(*config.Config)) *bench {
	t.Helper()
	site, err := fake.NewSite()
	if err != nil {
		t.Fatal(err)
	}
	cfg := site.Config()
	if change != nil {
		change(cfg)
	}
	b := &bench{fleet: fake.NewFleet(site)}
	var number atomic.Int64
	b.Runner = &provision.Runner{
		Config: cfg, RPC: b.fleet, Helper: helperFunc(obliging),
		Store: installstate.NewStore(t.TempDir()),
		Nonce: func() (string, error) { return fmt.Sprintf("nonce %d", number.Add(1)), nil },
		May:   func() error { return nil },
		Tell:  b.observe,

		Fingerprint: installstate.Fingerprint([]byte("site")),
	}
	t.Cleanup(func() {
		if err := b.Store.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// run works on the named nodes, seen just now.
func (b *bench) run(ctx context.Context, names ...string) provision.Summary {
	var seen []discovery.Sighting
	for _, name := range names {
		seen = append(seen, discovery.Sighting{Identity: name, Seen: time.Now()})
	}
	return b.Run(ctx, ctx, seen)
}
