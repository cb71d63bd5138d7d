package network

import (
	"context"
	"errors"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/choria-io/go-choria/protocol"
	natsd "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// away stops a broker and returns what starts it again on its port.
func away(t *testing.T, server *natsd.Server, conn *Conn) (back func() *natsd.Server) {
	t.Helper()
	port := server.Addr().(*net.TCPAddr).Port
	changed := conn.nc.StatusChanged(nats.RECONNECTING)
	server.Shutdown()
	server.WaitForShutdown()
	<-changed
	return func() *natsd.Server {
		return broker(t, func(o *natsd.Options) { o.Port = port })
	}
}

func TestNothingIsKeptToBeSentLate(t *testing.T) {
	t.Parallel()
	server := broker(t, nil)
	conn := dial(t, server)
	away(t, server, conn)
	if err := conn.nc.Publish("any", []byte("late")); !errors.Is(err, nats.ErrReconnectBufExceeded) {
		t.Errorf("got %v, want %v", err, nats.ErrReconnectBufExceeded)
	}
}

func TestARequestWaitsForTheBroker(t *testing.T) {
	t.Parallel()
	server := broker(t, nil)
	conn := dial(t, server)
	back := away(t, server, conn)
	made := make(chan time.Time, 1)
	type got struct {
		replies []Reply
		err     error
	}
	ended := make(chan got, 1)
	go func() {
		replies, err := conn.Request(within(t, 20*time.Second), "n1", "rpcutil", ping)
		ended <- got{replies, err}
	}()
	server = back()
	again := time.Now()
	node := newMachine(t, server, "n1")
	node.serve(subject, func(r protocol.Request, replyTo string) {
		made <- r.Time()
		node.reply(r, replyTo, 1)
	})
	if g := <-ended; g.err != nil || len(g.replies) != 1 {
		t.Fatalf("got %v, %v, want a reply: the node came back after the broker", g.replies, g.err)
	}
	if at := <-made; at.Before(again.Truncate(time.Second)) { // v1 states whole seconds
		t.Errorf("got a request made at %s, want it made after the broker was back at %s", at, again)
	}
}

func TestNodesMayReturnBeforeTheHandlerIsTold(t *testing.T) {
	t.Parallel()
	o := &outages{hooks: Hooks{Regained: func() {}}}
	if o.nodesReturn(0) {
		t.Error("got nodes that return without an outage")
	}
	if !o.nodesReturn(1) {
		t.Error("got no nodes that return, want them from the reconnect on")
	}
	o.mended(1)
	if !o.nodesReturn(1) {
		t.Error("got no nodes that return, want them for a while")
	}
	o.regained = time.Now().Add(-ReturnTime)
	if o.nodesReturn(1) {
		t.Error("got nodes that return long after the outage")
	}
}

func TestABrokerThatStaysAwayIsNotWaitedForTwice(t *testing.T) {
	t.Parallel()
	server := broker(t, nil)
	conn := dial(t, server)
	conn.patience = 50 * time.Millisecond
	away(t, server, conn)
	for range 100 { // none of these takes its time again, or the test would end by its own
		_, err := conn.Request(within(t, 20*time.Second), "n1", "rpcutil", ping)
		if !errors.Is(err, ErrDisconnected) {
			t.Fatalf("got %v, want %v", err, ErrDisconnected)
		}
	}
	if err := conn.Await(t.Context(), 0); !errors.Is(err, ErrDisconnected) || !strings.Contains(err.Error(), "did not come back") {
		t.Errorf("got %v, want %v and for how long", err, ErrDisconnected)
	}
}

func TestARequestThatWaitsEndsWithItsContext(t *testing.T) {
	t.Parallel()
	server := broker(t, nil)
	conn := dial(t, server)
	away(t, server, conn)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := conn.Request(ctx, "n1", "rpcutil", ping); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
	if _, err := conn.Request(within(t, time.Millisecond), "n1", "rpcutil", ping); !errors.Is(err, ErrDisconnected) {
		t.Errorf("got %v, want %v: it was not sent", err, ErrDisconnected)
	}
	conn.nc.Close()
	if _, err := conn.Request(within(t, 20*time.Second), "n1", "rpcutil", ping); !errors.Is(err, ErrDisconnected) {
		t.Errorf("got %v on a closed connection, want %v", err, ErrDisconnected)
	}
}

func TestADroppedConnectionComesBack(t *testing.T) {
	t.Parallel()
	server := broker(t, nil)
	conn := dial(t, server)
	lost, regained := make(chan error, 1), make(chan struct{}, 1)
	conn.Follow(Hooks{Lost: func(err error) { lost <- err }, Regained: func() { regained <- struct{}{} }, Refused: func(error) {}})
	reason := errors.New("another one leads")
	conn.Drop(reason)
	if err := <-lost; !errors.Is(err, reason) {
		t.Errorf("got %v, want the reason", err)
	}
	<-regained
	node := newMachine(t, server, "n1")
	node.serve(subject, func(r protocol.Request, replyTo string) { node.reply(r, replyTo, 1) })
	if _, err := conn.Request(within(t, 20*time.Second), "n1", "rpcutil", ping); err != nil {
		t.Errorf("got %v after the connection was there again", err)
	}
}

// A peer that reads nothing stands for a link that is frozen: what was written
// waits on this machine.
func TestADroppedSocketThrowsAwayWhatItHolds(t *testing.T) {
	t.Parallel()
	listener := listener127(t)
	defer listener.Close()
	d := &dialer{timeout: 10 * time.Second}
	near, err := d.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	far, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	written, block := 0, make([]byte, 1<<20)
	for {
		if err := near.SetWriteDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		n, err := near.Write(block)
		if written += n; err != nil {
			break // full, on both sides
		}
	}
	d.drop()
	read := 0
	for err = nil; err == nil; {
		var n int
		n, err = far.Read(block)
		read += n
	}
	if !errors.Is(err, syscall.ECONNRESET) || read >= written {
		t.Errorf("got %d of %d bytes and %v, want less and %v", read, written, err, syscall.ECONNRESET)
	}
}
