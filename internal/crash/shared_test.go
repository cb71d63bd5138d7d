package crash

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"choria-provision/provision/installstate"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// bucket names two key-value buckets that hosts share. The zero bucket is none:
// each host has a database.
type bucket struct {
	URL  string // of the broker
	Name string
}

func (b bucket) records() string  { return "RECORDS_" + b.Name }
func (b bucket) sessions() string { return "SESSIONS_" + b.Name }

// neverEnds is longer than a test: a session ends by Close or by endSessions.
const neverEnds = time.Hour

// open returns the state as a process on one of the hosts sees it.
func (b bucket) open(dir, host string) (*installstate.Store, error) {
	if b == (bucket{}) {
		return installstate.NewStore(dir), nil
	}
	js, err := b.connect()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	shared := installstate.Buckets{JetStream: js, TTL: neverEnds, MarkerTTL: neverEnds, Host: host, Close: js.Conn().Close}
	if shared.Records, err = js.KeyValue(ctx, b.records()); err != nil {
		return nil, err
	}
	if shared.Sessions, err = js.KeyValue(ctx, b.sessions()); err != nil {
		return nil, err
	}
	return installstate.NewSharedStore(dir, shared), nil
}

func (b bucket) connect() (jetstream.JetStream, error) {
	nc, err := nats.Connect(b.URL)
	if err != nil {
		return nil, err
	}
	return jetstream.New(nc)
}

// broker makes buckets for stories.
type broker struct {
	*server.Server
	js    jetstream.JetStream
	count atomic.Int64
}

// newBroker starts a broker with JetStream that processes reach over loopback.
func newBroker(t *testing.T) *broker {
	t.Helper()
	srv, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	t.Cleanup(func() { srv.Shutdown(); srv.WaitForShutdown() })
	if !srv.ReadyForConnections(time.Minute) {
		t.Fatal("the broker does not start")
	}
	js, err := bucket{URL: srv.ClientURL()}.connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(js.Conn().Close)
	return &broker{Server: srv, js: js}
}

// bucket creates the buckets of one story. A nil broker has none.
func (b *broker) bucket(t *testing.T) bucket {
	t.Helper()
	if b == nil {
		return bucket{}
	}
	made := bucket{URL: b.ClientURL(), Name: fmt.Sprint(b.count.Add(1))}
	_, err := b.js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: made.records(), LimitMarkerTTL: neverEnds, Storage: jetstream.MemoryStorage})
	if err == nil {
		_, err = b.js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: made.sessions(), TTL: neverEnds, Storage: jetstream.MemoryStorage})
	}
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// remove makes room for the buckets of other stories.
func (b *broker) remove(t *testing.T, made bucket) {
	t.Helper()
	if b == nil {
		return
	}
	for _, name := range []string{made.records(), made.sessions()} {
		if err := b.js.DeleteKeyValue(t.Context(), name); err != nil {
			t.Error(err)
		}
	}
}

// endSessions does what the TTL does a while after a process was killed.
func (b *broker) endSessions(t *testing.T, made bucket) {
	t.Helper()
	if b == nil {
		return
	}
	stream, err := b.js.Stream(t.Context(), "KV_"+made.sessions())
	if err == nil {
		err = stream.Purge(t.Context())
	}
	if err != nil {
		t.Error(err)
	}
}

// TestKilledAtEveryPointOfSharedRecords is TestKilledAtEveryPoint on records that
// hosts share: the run after the killed one is another host's.
func TestKilledAtEveryPointOfSharedRecords(t *testing.T) {
	t.Parallel()
	killAllEnrollments(t, newBroker(t))
}

// holdClaims is what must be true after a kill until the session ends: the nodes
// at work are the dead process's, and no other process can claim them.
func (s *story) holdClaims(pid int) {
	if s.broker == nil { // its sessions end with the process
		return
	}
	other, err := s.order.Records.open(s.t.TempDir(), "other.example.net")
	if err != nil {
		s.errorf("%v", err)
		return
	}
	defer other.Close()
	entries, err := other.List()
	if err != nil {
		s.errorf("%v", err)
	}
	for _, e := range entries {
		if !e.Locked {
			continue
		}
		s.claims++
		if e.Holder.PID != pid || e.Holder.Host != s.order.Host {
			s.errorf("%s: got holder %v, want process %d on %s", e.Identity, e.Holder, pid, s.order.Host)
		}
		if _, err := other.AcquireLock(e.Identity); !errors.Is(err, installstate.ErrLockHeld) {
			s.errorf("%s: claiming it got %v, want ErrLockHeld", e.Identity, err)
		}
	}
}
