package installstate

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// cluster starts three servers with JetStream, connected to each other.
func cluster(t *testing.T) []*server.Server {
	t.Helper()
	var routes []*url.URL
	var ports []int
	for range 3 {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ports = append(ports, listener.Addr().(*net.TCPAddr).Port)
		routes = append(routes, &url.URL{Scheme: "nats", Host: listener.Addr().String()})
		listener.Close()
	}
	var servers []*server.Server
	for i := range 3 {
		srv, err := server.NewServer(&server.Options{
			ServerName: fmt.Sprint("server", i), Host: "127.0.0.1", Port: -1, Routes: routes, NoSigs: true, NoLog: true,
			Cluster: server.ClusterOpts{Name: "cluster", Host: "127.0.0.1", Port: ports[i]}, JetStream: true, StoreDir: t.TempDir(),
		})
		if err != nil {
			t.Fatal(err)
		}
		srv.Start()
		t.Cleanup(func() { srv.Shutdown(); srv.WaitForShutdown() })
		servers = append(servers, srv)
	}
	return servers
}

// replicated returns the store of a host that is connected to one of the servers.
func replicated(t *testing.T, srv *server.Server, host string) *Store {
	t.Helper()
	nc, err := nats.Connect(srv.ClientURL(), nats.ErrorHandler(nil))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	b := Buckets{JetStream: js, TTL: time.Hour, Host: host}
	bind := func(name string, ttl time.Duration) (bucket jetstream.KeyValue) {
		awaitEvent(t, "the bucket "+name, func() bool { // the servers elect a leader first
			bucket, err = js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: name, TTL: ttl, Replicas: 3})
			return err == nil
		})
		return bucket
	}
	b.Records, b.Sessions = bind("RECORDS", 0), bind("SESSIONS", b.TTL)
	return sharedStore(t, b)
}

// TestReplicasDecideNothing lets hosts on three servers race for nodes. A server
// may answer a read with a value that was replaced, and a conflict may be one of
// a write that is still under way.
func TestReplicasDecideNothing(t *testing.T) {
	t.Parallel()
	var stores []*Store
	for i, srv := range cluster(t) {
		stores = append(stores, replicated(t, srv, fmt.Sprint("host", i)))
	}
	const nodes = 30
	var holders [nodes]atomic.Int32
	var completed [nodes]atomic.Int32
	var hosts sync.WaitGroup
	for _, s := range stores {
		for i := range nodes {
			hosts.Go(func() {
				identity := fmt.Sprint("web", i)
				c, err := s.AcquireLock(identity)
				if errors.Is(err, ErrLockHeld) {
					return
				}
				if err != nil {
					t.Error(err)
					return
				}
				defer c.Release()
				if holders[i].Add(1) != 1 {
					t.Errorf("%s has two holders", identity)
				}
				defer holders[i].Add(-1)
				switch _, disposition, err := Admit(s, identity, fingerprint); {
				case err != nil:
					t.Error(err)
				case disposition == Fresh:
					r := NewRecord(identity, fingerprint)
					if err := errors.Join(s.Save(r), s.MarkComplete(r)); err != nil {
						t.Error(err)
					}
					completed[i].Add(1)
				}
			})
		}
	}
	hosts.Wait()
	for i := range nodes {
		if got := completed[i].Load(); got != 1 {
			t.Errorf("web%d was completed %d times, want once", i, got)
		}
	}
	var counts sync.WaitGroup
	for range 20 {
		counts.Go(func() {
			if err := stores[0].UpdateCounters(func(stored []byte) ([]byte, error) { return append(stored, 'x'), nil }); err != nil {
				t.Error(err)
			}
		})
	}
	counts.Wait()
	if got, err := stores[0].Counters(); string(got) != strings.Repeat("x", 20) || err != nil {
		t.Errorf("got %q, %v, want 20 counts", got, err)
	}
}
