package network

import (
	"testing"
	"time"

	"github.com/choria-io/go-choria/choria"
	"github.com/google/go-cmp/cmp"
	natsd "github.com/nats-io/nats-server/v2/server"
)

func TestBrokerMayHaveAnIPv6Address(t *testing.T) {
	t.Parallel()
	server := broker(t, func(o *natsd.Options) { o.Host = "::1" })
	conn, err := Dial(t.Context(), client(t, "p.mcollective", server.ClientURL()), "test", 10*time.Second)
	if err != nil {
		t.Fatalf("%s: %v", server.ClientURL(), err)
	}
	conn.Close()
}

func TestAddressesOfBrokersCanBeParsed(t *testing.T) {
	t.Parallel()
	cfg := client(t, "p.mcollective", "")
	cfg.Choria.MiddlewareHosts = []string{"nats://[fe80::1%25eth0]:4222", "nats://127.0.0.1:4223", "broker:4224", "nats://[::1]:4225"}
	fw, err := choria.NewWithConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	servers, _, err := brokers(fw)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"nats://[fe80::1%25eth0]:4222", "nats://127.0.0.1:4223", "nats://broker:4224", "nats://[::1]:4225"}
	if diff := cmp.Diff(want, servers.Strings()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, err := servers.URLs(); err != nil {
		t.Error(err)
	}
}
