package installstate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"pgregory.net/rapid"
)

// broker is a nats-server with JetStream in this process.
func broker(t *testing.T) *server.Server {
	t.Helper()
	srv, err := server.NewServer(&server.Options{JetStream: true, StoreDir: t.TempDir(), DontListen: true, NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	t.Cleanup(func() { srv.Shutdown(); srv.WaitForShutdown() })
	if !srv.ReadyForConnections(time.Minute) {
		t.Fatal("the broker does not start")
	}
	return srv
}

// bucketsOf connects as one host and creates what is missing.
func bucketsOf(t *testing.T, srv *server.Server, host string, ttl time.Duration) Buckets {
	t.Helper()
	nc, err := nats.Connect("", nats.InProcessServer(srv), nats.ErrorHandler(nil))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	b := Buckets{JetStream: js, TTL: ttl, MarkerTTL: time.Second, Host: host}
	if b.Records, err = js.CreateOrUpdateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "RECORDS", LimitMarkerTTL: b.MarkerTTL}); err != nil {
		t.Fatal(err)
	}
	if b.Sessions, err = js.CreateOrUpdateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "SESSIONS", TTL: ttl}); err != nil {
		t.Fatal(err)
	}
	return b
}

func sharedStore(t *testing.T, b Buckets) *Store {
	t.Helper()
	s := NewSharedStore(t.TempDir(), b)
	t.Cleanup(func() { s.Close() })
	return s
}

func streamsSite(t *testing.T) site {
	srv := broker(t)
	open := func() *Store { return sharedStore(t, bucketsOf(t, srv, "host1.example.net", time.Hour)) }
	return site{open: open, kill: expire(t)}
}

// expire ends a session as its TTL does.
func expire(t *testing.T) func(*Store) {
	return func(s *Store) {
		e := s.engine.(*streams)
		e.own.cancel()
		<-e.own.done
		if err := e.b.Sessions.Purge(t.Context(), e.own.id); err != nil {
			t.Fatal(err)
		}
	}
}

// awaitEvent waits for a condition that other parts bring about.
func awaitEvent(t *testing.T, what string, happened func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !happened(); {
		if time.Now().After(end) {
			t.Fatalf("%s did not happen", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func TestASessionEndsWithItsTTL(t *testing.T) {
	t.Parallel()
	srv := broker(t)
	dying := sharedStore(t, bucketsOf(t, srv, "host1", time.Second))
	other := sharedStore(t, bucketsOf(t, srv, "host2", time.Second))
	claim(t, dying, "web1")
	own := dying.engine.(*streams).own
	before := own.deadline()
	awaitEvent(t, "a renewal", func() bool { return own.deadline().After(before) })
	own.cancel()
	<-own.done
	awaitEvent(t, "the end of the session", func() bool {
		c, err := other.AcquireLock("web1")
		if err == nil {
			defer c.Release()
		} else if !errors.Is(err, ErrLockHeld) {
			t.Fatal(err)
		}
		return err == nil
	})
	if !time.Now().After(dying.Deadline()) {
		t.Errorf("the claim was free at %v, the dead process could act until %v", time.Now(), dying.Deadline())
	}
	if err := own.renew(dying.engine.(*streams)); !errors.Is(err, errConflict) {
		t.Errorf("renewing a session that was proven dead: got %v, want a conflict", err)
	}
}

func TestALostSessionIsReplacedWhenItsClaimsAreGone(t *testing.T) {
	t.Parallel()
	srv := broker(t)
	b := bucketsOf(t, srv, "host1", time.Hour)
	s := sharedStore(t, b)
	c := claim(t, s, "web1")
	first := s.engine.(*streams).own
	first.mu.Lock()
	first.lost = true
	first.mu.Unlock()
	if err := s.CheckClaims(); time.Now().Before(s.Deadline()) || !errors.Is(err, ErrClaimLost) {
		t.Errorf("got deadline %v and %v, want one in the past and ErrClaimLost", s.Deadline(), err)
	}
	if _, err := s.AcquireLock("web2"); !errors.Is(err, ErrUnavailable) {
		t.Errorf("got %v, want ErrUnavailable while a node is at work", err)
	}
	c.Release()
	if err := s.CheckClaims(); err != nil {
		t.Errorf("without claims: got %v, want nothing lost", err)
	}
	claim(t, s, "web2")
	if own := s.engine.(*streams).own; own.id == first.id || time.Now().After(s.Deadline()) || s.CheckClaims() != nil {
		t.Errorf("got session %s with deadline %v, want another", own.id, s.Deadline())
	}
}

func TestCloseFreesClaimsAtOnce(t *testing.T) {
	t.Parallel()
	srv := broker(t)
	s, other := sharedStore(t, bucketsOf(t, srv, "host1", time.Hour)), sharedStore(t, bucketsOf(t, srv, "host2", time.Hour))
	claim(t, s, "web1")
	s.Close()
	claim(t, other, "web1").Release()
	if _, err := s.AcquireLock("web2"); !errors.Is(err, ErrUnavailable) {
		t.Errorf("after Close: got %v, want ErrUnavailable", err)
	}
}

// faultyBucket spoils the writes of a bucket.
type faultyBucket struct {
	jetstream.KeyValue
	faults []fault // of the coming writes, in order
}

type fault struct {
	stored bool             // the write is stored all the same
	err    error            // what the writer gets
	after  func(key string) // runs then
}

func (b *faultyBucket) spoil(key string, write func() (uint64, error)) (uint64, error) {
	if len(b.faults) == 0 {
		return write()
	}
	f := b.faults[0]
	b.faults = b.faults[1:]
	if f.stored {
		if _, err := write(); err != nil {
			return 0, err
		}
	}
	if f.after != nil {
		f.after(key)
	}
	return 0, f.err
}

func (b *faultyBucket) Create(ctx context.Context, key string, value []byte, o ...jetstream.KVCreateOpt) (uint64, error) {
	return b.spoil(key, func() (uint64, error) { return b.KeyValue.Create(ctx, key, value, o...) })
}

func (b *faultyBucket) Update(ctx context.Context, key string, value []byte, revision uint64) (uint64, error) {
	return b.spoil(key, func() (uint64, error) { return b.KeyValue.Update(ctx, key, value, revision) })
}

func (b *faultyBucket) Purge(ctx context.Context, key string, o ...jetstream.KVDeleteOpt) error {
	_, err := b.spoil(key, func() (uint64, error) { return 0, b.KeyValue.Purge(ctx, key, o...) })
	return err
}

func TestWritesWithoutAnswerAreRepeated(t *testing.T) {
	t.Parallel()
	srv := broker(t)
	busy := &jetstream.APIError{Code: 400, ErrorCode: codeKeyBusy}
	away := &jetstream.APIError{Code: 503, ErrorCode: 10008}
	lost := context.DeadlineExceeded
	for name, faults := range map[string][]fault{
		"no fault":              nil,
		"lost":                  {{err: lost}},
		"stored":                {{stored: true, err: lost}},
		"lost twice, stored":    {{err: lost}, {err: nats.ErrNoResponders}, {stored: true, err: lost}},
		"busy":                  {{err: busy}, {err: busy}},
		"lost, busy, no leader": {{err: lost}, {err: busy}, {err: away}},
		"stored, busy":          {{stored: true, err: lost}, {err: busy}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := bucketsOf(t, srv, "host1", time.Hour)
			bucket := &faultyBucket{KeyValue: b.Records}
			b.Records = bucket
			s := sharedStore(t, b)
			identity := strings.ReplaceAll(name, " ", "-")
			bucket.faults = slices.Clone(faults)
			c := claim(t, s, identity)
			r := NewRecord(identity, fingerprint)
			bucket.faults = slices.Clone(faults)
			if err := s.Save(r); err != nil {
				t.Fatal(err)
			}
			bucket.faults = slices.Clone(faults)
			if err := s.MarkComplete(r); err != nil {
				t.Fatal(err)
			}
			bucket.faults = slices.Clone(faults)
			if err := s.Remove(identity); err != nil {
				t.Fatal(err)
			}
			bucket.faults = slices.Clone(faults)
			c.Release() // removes the key
			key, err := nodeKey(identity)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := bucket.Get(t.Context(), key); !errors.Is(err, jetstream.ErrKeyNotFound) {
				t.Errorf("got %v, want no key", err)
			}
		})
	}
}

func TestAClaimThatAnotherSessionTookIsLost(t *testing.T) {
	t.Parallel()
	srv := broker(t)
	b := bucketsOf(t, srv, "host1", time.Hour)
	usurp := func(key string) {
		if _, err := b.Records.Put(t.Context(), key, encodeRow(row{session: strings.Repeat("A", 26), pending: true})); err != nil {
			t.Error(err)
		}
	}
	for name, faults := range map[string][]fault{
		"answered":   {{err: &jetstream.APIError{Code: 400, ErrorCode: codeWrongRevision}}},
		"unanswered": {{err: context.DeadlineExceeded, after: usurp}},
		"overtaken":  {{stored: true, err: context.DeadlineExceeded, after: usurp}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := b
			bucket := &faultyBucket{KeyValue: b.Records}
			b.Records = bucket
			s := sharedStore(t, b)
			claim(t, s, name)
			bucket.faults = faults
			if err := s.Save(NewRecord(name, fingerprint)); !errors.Is(err, ErrClaimLost) {
				t.Errorf("got %v, want ErrClaimLost", err)
			}
		})
	}
}

func TestValuesOfOtherProgramsAreRefused(t *testing.T) {
	t.Parallel()
	srv := broker(t)
	b := bucketsOf(t, srv, "host1", time.Hour)
	s := sharedStore(t, b)
	for i, text := range []string{"", "{}", "nonsense", "provision-row-1 ", "provision-row-1 a.b true\n{}", "provision-row-1  maybe\n", "provision-row-1  true\nnonsense"} {
		identity := fmt.Sprint("web", i)
		if _, err := b.Records.Put(t.Context(), nodePrefix+identity, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if _, _, err := Admit(s, identity, fingerprint); !errors.Is(err, ErrUnusable) || !strings.Contains(err.Error(), "provision reset "+identity) {
			t.Errorf("%q: got %v, want ErrUnusable and the command that helps", text, err)
		}
		c := claim(t, s, identity)
		if err := s.Save(NewRecord(identity, fingerprint)); !errors.Is(err, ErrUnusable) {
			t.Errorf("%q: saving over it: got %v, want ErrUnusable", text, err)
		}
		if err := s.Remove(identity); err != nil {
			t.Errorf("%q: got %v, want its removal", text, err)
		}
		c.Release()
		complete(t, s, identity)
	}
	for _, key := range []string{"node", "node.a=", "node.a=2e", "node.a.b", "other.web1"} {
		if _, err := b.Records.Put(t.Context(), key, []byte("nonsense")); err != nil {
			t.Fatal(err)
		}
	}
	if entries, err := s.List(); err != nil || len(entries) != 7 {
		t.Errorf("got %d entries, %v, want 7", len(entries), err)
	}
	if _, err := b.Records.Put(t.Context(), "value.pause", []byte("nonsense")); err != nil {
		t.Fatal(err)
	}
	if p, err := s.Pause(); p == nil || !errors.Is(err, ErrPauseFlag) {
		t.Errorf("got %v, %v, want a broken pause that counts", p, err)
	}
}

func TestEveryIdentityIsAKey(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		identity := string(rapid.SliceOfN(rapid.Byte(), 1, 253).Draw(t, "identity"))
		key, err := nodeKey(identity)
		if err != nil {
			t.Fatal(err)
		}
		if token := strings.TrimPrefix(key, nodePrefix); strings.Trim(token, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=/") != "" || token == "" {
			t.Errorf("got key %q", key)
		}
		if got, ok := nodeIdentity(key); got != identity || !ok {
			t.Errorf("got %q, %v, want %q", got, ok, identity)
		}
	})
	for _, identity := range []string{"", strings.Repeat("=", 400)} {
		if _, err := nodeKey(identity); !errors.Is(err, ErrUnusable) {
			t.Errorf("%q: got %v, want ErrUnusable", identity, err)
		}
	}
}

func TestHostsShareThePauseAndNothingElse(t *testing.T) {
	t.Parallel()
	srv := broker(t)
	var stores []*Store
	for _, host := range []string{"b.example.net", "a", "*"} {
		s := sharedStore(t, bucketsOf(t, srv, host, time.Hour))
		stores = append(stores, s)
		if err := s.SaveLastReport([]byte(host)); err != nil {
			t.Fatal(err)
		}
		if err := s.UpdateCounters(func([]byte) ([]byte, error) { return []byte(host), nil }); err != nil {
			t.Fatal(err)
		}
	}
	edit := func(report []byte) ([]byte, error) {
		if string(report) != "a" {
			return nil, nil
		}
		return []byte("edited"), nil
	}
	if err := stores[0].EditLastReports(edit); err != nil {
		t.Fatal(err)
	}
	if err := stores[0].SetPause(Pause{Since: time.Now()}); err != nil {
		t.Fatal(err)
	}
	want := []HostReport{{"*", []byte("*")}, {"a", []byte("edited")}, {"b.example.net", []byte("b.example.net")}}
	for i, host := range []string{"b.example.net", "a", "*"} {
		counters, err := stores[i].Counters()
		if string(counters) != host || err != nil {
			t.Errorf("got %q, %v, want %q", counters, err, host)
		}
		reports, err := stores[i].LastReports()
		if err != nil || !slices.EqualFunc(reports, want, func(a, b HostReport) bool { return a.Host == b.Host && bytes.Equal(a.Report, b.Report) }) {
			t.Errorf("got %q, %v, want %q", reports, err, want)
		}
		if p, err := stores[i].Pause(); p == nil || err != nil {
			t.Errorf("got %v, %v, want the pause", p, err)
		}
	}
	claim(t, stores[0], "web1")
	var held *LockHeld
	if _, err := stores[1].AcquireLock("web1"); !errors.As(err, &held) || held.Holder.Host != "b.example.net" || held.Holder.PID != os.Getpid() {
		t.Errorf("got %v, want the host that works on it", err)
	}
}

func TestABrokerThatIsAwayIsUnavailable(t *testing.T) {
	t.Parallel()
	srv := broker(t)
	s := sharedStore(t, bucketsOf(t, srv, "host1", time.Second))
	claim(t, s, "web1")
	srv.Shutdown()
	srv.WaitForShutdown()
	r := NewRecord("web1", fingerprint)
	if err := s.Save(r); !errors.Is(err, ErrUnavailable) {
		t.Errorf("got %v, want ErrUnavailable", err)
	}
	awaitEvent(t, "the deadline", func() bool { return time.Now().After(s.Deadline()) })
	if _, err := s.AcquireLock("web2"); !errors.Is(err, ErrUnavailable) {
		t.Errorf("got %v, want ErrUnavailable", err)
	}
	if _, err := s.List(); !errors.Is(err, ErrUnavailable) {
		t.Errorf("got %v, want ErrUnavailable", err)
	}
}
