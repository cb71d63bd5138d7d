package network

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/choria-io/go-choria/protocol"
	v1 "github.com/choria-io/go-choria/protocol/v1"
)

// until is a fence with this deadline.
func until(deadline time.Time) Fence {
	return func() (time.Time, error) { return deadline, nil }
}

func TestARequestExpiresAtTheDeadline(t *testing.T) {
	for _, security := range securities {
		t.Run(security.name, func(t *testing.T) {
			p := security.make(t)
			conn := &Conn{sender: p.sender(), fw: p.provisioner}
			now := time.Now()
			tests := []struct {
				name     string
				deadline time.Time
				want     time.Time
			}{
				{"no fence", time.Time{}, now},
				{"a deadline later than any request lives", now.Add(time.Hour), now},
				{"a deadline in 20 s", now.Add(20 * time.Second), now.Add(-40 * time.Second)},
			}
			for _, tt := range tests {
				t.Run(tt.name, func(t *testing.T) {
					conn.SetFence(until(tt.deadline))
					data, err := conn.sealFenced(t.Context(), &exchange{identity: "n1"}, letterOf(t, p.provisioner))
					if err != nil {
						t.Fatal(err)
					}
					request, err := p.node.NewRequestFromTransportJSON(data, false)
					if err != nil {
						t.Fatalf("the node refuses it: %v", err)
					}
					// v1 states whole seconds: cut, so that it expires before the deadline
					off := request.Time().Sub(tt.want)
					if off <= -time.Second || off > 5*time.Second || off > 0 && !tt.deadline.IsZero() && tt.deadline.Before(now.Add(time.Minute)) {
						t.Errorf("got a request made at %s, want %s", request.Time(), tt.want)
					}
					if request.TTL() != 60 {
						t.Errorf("got a time-to-live of %d s, want 60", request.TTL())
					}
				})
			}
		})
	}
}

// served counts the requests that reach a node, in the order they were sent.
func served(t *testing.T) (*Conn, *atomic.Int32) {
	t.Helper()
	server := broker(t, nil)
	node := newMachine(t, server, "n1")
	var count atomic.Int32
	node.serve(subject, func(r protocol.Request, replyTo string) {
		count.Add(1)
		node.reply(r, replyTo, "{}")
	})
	return dial(t, server), &count
}

func TestNothingIsSentBeyondTheFence(t *testing.T) {
	t.Parallel()
	over := errors.New("over")
	allow := time.Now().Add(time.Hour)
	tests := []struct {
		name  string
		fence func(call int) (time.Time, error)
		calls int
		want  error
	}{
		{"refused before it is sealed", func(int) (time.Time, error) { return time.Time{}, over }, 1, over},
		{"refused after it was sealed", func(call int) (time.Time, error) {
			if call == 2 {
				return time.Time{}, over
			}
			return allow, nil
		}, 2, over},
		{"the deadline has passed", func(int) (time.Time, error) { return time.Now().Add(-time.Millisecond), nil }, 1, ErrFenced},
		{"the deadline has passed by the wall clock", func(int) (time.Time, error) { return time.Now().Round(0).Add(-time.Millisecond), nil }, 1, ErrFenced},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			conn, count := served(t)
			calls := 0
			conn.SetFence(func() (time.Time, error) { calls++; return tt.fence(calls) })
			_, err := conn.Request(within(t, 10*time.Second), "n1", "rpcutil", []byte("{}"))
			if !errors.Is(err, tt.want) || !errors.Is(err, ErrFenced) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
			if calls != tt.calls {
				t.Errorf("got %d calls of the fence, want %d", calls, tt.calls)
			}
			conn.SetFence(nil)
			if _, err := conn.Request(within(t, 10*time.Second), "n1", "rpcutil", []byte("{}")); err != nil {
				t.Fatal(err)
			}
			if got := count.Load(); got != 1 { // what was sent before would have come before
				t.Errorf("got %d requests at the node, want only the one without a fence", got)
			}
		})
	}
}

// A seed that is a pipe is read when somebody writes it: sealing takes as long
// as the test wants.
func TestARequestThatExpiredWhileItWasSealedIsSealedAgain(t *testing.T) {
	p := newIssuerPair(t)
	conn := &Conn{sender: p.sender(), fw: p.provisioner}
	path := filepath.Join(p.dir, "own.seed")
	seed, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Remove(path), syscall.Mkfifo(path, 0o600)); err != nil {
		t.Fatal(err)
	}
	deadlines := []time.Time{time.Now().Add(50 * time.Millisecond), time.Now().Add(time.Hour)}
	calls, again := 0, make(chan struct{})
	conn.SetFence(func() (time.Time, error) {
		if calls++; calls == 2 {
			close(again)
		}
		return deadlines[min(calls, 2)-1], nil
	})
	write := func(late <-chan time.Time) error {
		pipe, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		<-late
		_, err = pipe.Write(seed)
		return errors.Join(err, pipe.Close())
	}
	written := make(chan error, 1)
	go func() {
		err := write(time.After(time.Until(deadlines[0])))
		<-again
		written <- errors.Join(err, write(time.After(0)))
	}()
	x := &exchange{identity: "n1"}
	data, err := conn.sealFenced(t.Context(), x, letterOf(t, p.provisioner))
	if err := errors.Join(err, <-written); err != nil {
		t.Fatal(err)
	}
	request, err := p.node.NewRequestFromTransportJSON(data, false)
	if err != nil {
		t.Fatal(err)
	}
	if request.Time().Before(deadlines[0]) {
		t.Errorf("got a request made at %s, want one made after %s", request.Time(), deadlines[0])
	}
	if calls != 3 {
		t.Errorf("got %d calls of the fence, want 3", calls)
	}
}

func TestTheEarliestDeadlineCounts(t *testing.T) {
	t.Parallel()
	now := time.Now()
	over := errors.New("over")
	refuse := func() (time.Time, error) { return now, over }
	tests := []struct {
		name   string
		fences []Fence
		want   time.Time
		err    error
	}{
		{"none", nil, time.Time{}, nil},
		{"no deadline", []Fence{until(time.Time{})}, time.Time{}, nil},
		{"one of two has a deadline", []Fence{until(time.Time{}), until(now)}, now, nil},
		{"the second is earlier", []Fence{until(now.Add(1)), until(now)}, now, nil},
		{"the first is earlier", []Fence{until(now), until(now.Add(1))}, now, nil},
		{"one refuses", []Fence{until(now), refuse}, time.Time{}, over},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := EarliestFence(tt.fences...)()
			if !got.Equal(tt.want) || !errors.Is(err, tt.err) {
				t.Errorf("got %s, %v, want %s, %v", got, err, tt.want, tt.err)
			}
		})
	}
}

func TestTheFenceOfALeaseEndsWithIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &Lease{ttl: time.Minute, renewed: time.Now()}
		deadline, err := l.Fence()
		if want := time.Now().Add(45 * time.Second); !deadline.Equal(want) || err != nil {
			t.Errorf("got %s, %v, want %s", deadline, err, want)
		}
		time.Sleep(45*time.Second - 1)
		if _, err := l.Fence(); err != nil || l.Err() != nil {
			t.Errorf("got %v, %v just before the deadline, want nil", err, l.Err())
		}
		time.Sleep(time.Nanosecond)
		if _, err := l.Fence(); !errors.Is(err, ErrLost) || !errors.Is(l.Err(), ErrLost) {
			t.Errorf("got %v, %v at the deadline, want %v", err, l.Err(), ErrLost)
		}
		if left := l.ttl - elapsed(l.renewed); left < l.ttl/4 {
			t.Errorf("got %s until another one can have the key, want a quarter of its TTL", left)
		}
	})
}

func TestANodeWhoseClockIsFastIsTold(t *testing.T) {
	t.Parallel()
	server := broker(t, nil)
	conn := dial(t, server)
	node := newMachine(t, server, "n1")
	silent := false
	node.serve(subject, func(r protocol.Request, replyTo string) {
		if silent {
			return
		}
		reply, err := node.fw.NewReply(r)
		if err != nil {
			t.Error(err)
			return
		}
		reply.(*v1.Reply).Envelope.Time += 30
		node.send(reply, replyTo, map[string]any{"statuscode": 0, "data": map[string]any{}})
		silent = true
	})
	if _, err := conn.Request(within(t, 10*time.Second), "n1", "rpcutil", []byte("{}")); err != nil {
		t.Fatal(err)
	}
	conn.SetFence(until(time.Now().Add(20 * time.Second)))
	_, err := conn.Request(within(t, 100*time.Millisecond), "n1", "rpcutil", []byte("{}"))
	if !errors.Is(err, ErrNoReply) || !strings.Contains(err.Error(), "clock is 30s ahead") && !strings.Contains(err.Error(), "clock is 29s ahead") {
		t.Errorf("got %v, want the node's clock told", err)
	}
}
