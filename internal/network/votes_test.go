package network

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	natsd "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// ballot stands for the election's bucket as a broker has it in the
// provisioning account: its key can be written and not read. A script decides
// what becomes of a write.
type ballot struct {
	nc *nats.Conn

	mu     sync.Mutex
	key    uint64 // revision of the key, 0 when there is none
	last   uint64 // revision of the last write
	writes []uint64
	script func(write int, stored *bool) (answer string, ok bool) // write counts from 1
}

// The answers of a broker to a write, besides that it was stored.
const (
	underWay = `{"error":{"code":400,"err_code":10164,"description":"wrong last sequence"}}`
	silence  = ""
)

func newBallot(t *testing.T, server *natsd.Server, ttl time.Duration) *ballot {
	t.Helper()
	nc, err := nats.Connect(server.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	b := &ballot{nc: nc}
	info := fmt.Sprintf(`{"type":"io.nats.jetstream.api.v1.stream_info_response","config":{"name":"KV_%s","subjects":["$KV.%[1]s.>"],"max_msgs_per_subject":1,"max_age":%d},"state":{}}`, electionBucket, ttl)
	b.serve(t, "choria.streams.STREAM.INFO.KV_"+electionBucket, func(m *nats.Msg) { _ = m.Respond([]byte(info)) })
	b.serve(t, "choria.streams.$KV."+electionBucket+"."+electionName, b.write)
	b.serve(t, "$KV."+electionBucket+"."+electionName, b.write)
	return b
}

func (b *ballot) serve(t *testing.T, subject string, take nats.MsgHandler) {
	t.Helper()
	if _, err := b.nc.Subscribe(subject, take); err != nil {
		t.Fatal(err)
	}
	if err := b.nc.Flush(); err != nil {
		t.Fatal(err)
	}
}

// write is a compare-and-set, unless the script has another answer.
func (b *ballot) write(m *nats.Msg) {
	b.mu.Lock()
	defer b.mu.Unlock()
	revision, _ := strconv.ParseUint(m.Header.Get("Nats-Expected-Last-Subject-Sequence"), 10, 64)
	b.writes = append(b.writes, revision)
	stored, answer, scripted := true, "", false
	if b.script != nil {
		answer, scripted = b.script(len(b.writes), &stored)
	}
	if scripted && !stored {
		b.respond(m, answer)
		return
	}
	if revision != b.key {
		b.respond(m, fmt.Sprintf(`{"error":{"code":400,"err_code":10071,"description":"wrong last sequence: %d"}}`, b.key))
		return
	}
	b.last++
	b.key = b.last
	if !scripted {
		answer = fmt.Sprintf(`{"stream":"KV_%s","seq":%d}`, electionBucket, b.key)
	}
	b.respond(m, answer)
}

func (b *ballot) respond(m *nats.Msg, answer string) {
	if answer != silence {
		_ = m.Respond([]byte(answer))
	}
}

// set has the script in force from the next write on, which is number 1.
func (b *ballot) set(script func(write int, stored *bool) (string, bool)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.writes, b.script = nil, script
}

func (b *ballot) revisions() []uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]uint64(nil), b.writes...)
}

func (b *ballot) revision() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.key
}

// answers gives these to the first writes, none of which is stored.
func answers(list ...string) func(int, *bool) (string, bool) {
	return func(write int, stored *bool) (string, bool) {
		if write > len(list) {
			return "", false
		}
		*stored = false
		return list[write-1], true
	}
}

func TestAWriteThatMeetsAnotherUnderWayIsRepeated(t *testing.T) {
	t.Parallel()
	server := broker(t, nil)
	b := newBallot(t, server, time.Minute)
	b.set(answers(underWay, underWay))
	lease, err := dial(t, server).Lead(LeaseOptions{Name: "a"})
	if err != nil {
		t.Fatalf("got %v, want the leadership: a write under way may come to nothing", err)
	}
	defer lease.Release()
	if got := len(b.revisions()); got != 3 {
		t.Errorf("got %d writes, want 3", got)
	}
}

func TestAWriteUnderWayThatIsStoredLeads(t *testing.T) {
	t.Parallel()
	server := broker(t, nil)
	b := newBallot(t, server, time.Minute)
	b.set(func(write int, stored *bool) (string, bool) {
		if write > 1 {
			return "", false
		}
		*stored = false
		b.last++
		b.key = b.last // the other instance's
		return underWay, true
	})
	if _, err := dial(t, server).Lead(LeaseOptions{Name: "a"}); !errors.Is(err, ErrStandby) {
		t.Errorf("got %v, want %v", err, ErrStandby)
	}
}

func TestAVoteWithoutAnAnswerIsRepeated(t *testing.T) {
	t.Parallel()
	server := broker(t, nil)
	b := newBallot(t, server, 800*time.Millisecond)
	b.set(answers(silence, silence))
	lease, err := dial(t, server).Lead(LeaseOptions{Name: "a"})
	if err != nil {
		t.Fatalf("got %v, want the leadership", err)
	}
	lease.Release()
}

// A vote that was stored and not answered may be another's just as well: no one
// can read the key.
func TestAVoteThatMayBeAnothersStandsBy(t *testing.T) {
	t.Parallel()
	server := broker(t, nil)
	b := newBallot(t, server, 800*time.Millisecond)
	b.set(func(write int, _ *bool) (string, bool) { return silence, write == 1 })
	if _, err := dial(t, server).Lead(LeaseOptions{Name: "a"}); !errors.Is(err, ErrStandby) {
		t.Errorf("got %v, want %v", err, ErrStandby)
	}
}

// renewals is a lease that is renewed by hand, so that no timing decides.
func renewals(t *testing.T) (*ballot, *Lease) {
	t.Helper()
	server := broker(t, nil)
	b := newBallot(t, server, 4*time.Second)
	lease, err := dial(t, server).Lead(LeaseOptions{Name: "a"})
	if err != nil {
		t.Fatal(err)
	}
	lease.cancel()
	<-lease.done
	return b, lease
}

func TestARenewalIsRepeatedUntilItIsDoneOrRefused(t *testing.T) {
	t.Parallel()
	stored := func(write int, _ *bool) (string, bool) { return silence, write == 1 }
	usurped := func(b *ballot) { b.last++; b.key = b.last }
	tests := []struct {
		name   string
		script func(int, *bool) (string, bool)
		before func(*ballot)
		taken  bool
		writes int
	}{
		{"another write under way", answers(underWay, underWay), nil, false, 3},
		{"no answer, not stored", answers(silence), nil, false, 2},
		{"no answer, stored: the refusal of the copy names our revision", stored, nil, false, 2},
		{"no JetStream for a moment", answers(`{"error":{"code":503,"err_code":10008,"description":"JetStream system temporarily unavailable"}}`), nil, false, 2},
		{"taken by another", nil, usurped, true, 1},
		{"under way, then taken by another", answers(underWay), usurped, true, 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b, lease := renewals(t)
			b.set(tt.script)
			if tt.before != nil {
				b.mu.Lock()
				tt.before(b)
				b.mu.Unlock()
			}
			held := lease.current()
			err := lease.update(within(t, 10*time.Second), held)
			if isTaken(err) != tt.taken || err != nil && !tt.taken {
				t.Fatalf("got %v, want taken: %t", err, tt.taken)
			}
			if got := b.revisions(); len(got) != tt.writes {
				t.Errorf("got the writes %v, want %d", got, tt.writes)
			}
			for _, revision := range b.revisions() {
				if revision != held {
					t.Errorf("got a write for revision %d, want %d each time", revision, held)
				}
			}
			if got := lease.current(); !tt.taken && got != b.revision() {
				t.Errorf("got revision %d, want the key's own: %d", got, b.revision())
			}
		})
	}
}

// A renewal whose key may have expired meanwhile says nothing of whose it is.
func TestARenewalAfterItsTimeIsNotTakenForOurs(t *testing.T) {
	t.Parallel()
	b, lease := renewals(t)
	b.set(func(write int, _ *bool) (string, bool) { return silence, write == 1 })
	lease.hold(lease.current(), time.Now().Add(-time.Hour))
	if err := lease.update(within(t, 10*time.Second), lease.current()); !isTaken(err) {
		t.Errorf("got %v, want that it is taken", err)
	}
}
