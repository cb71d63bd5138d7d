package network

import (
	"bytes"
	"testing"
	"time"

	"github.com/choria-io/go-choria/protocol"
	natsd "github.com/nats-io/nats-server/v2/server"
)

// raw returns a node's sealed reply to a request, as it goes to the broker. It
// may be called from the connection's goroutine.
func (m *machine) raw(request protocol.Request, data any) []byte {
	reply, err := m.fw.NewReply(request)
	if err != nil {
		m.t.Error(err)
		return nil
	}
	reply.SetMessage(encoded(map[string]any{"statuscode": 0, "statusmsg": "OK", "data": data}))
	secure, err := m.fw.NewSecureReply(reply)
	if err != nil {
		m.t.Error(err)
		return nil
	}
	transport, err := m.fw.NewTransportForSecureReply(secure)
	if err != nil {
		m.t.Error(err)
		return nil
	}
	sealed, err := transport.JSON()
	if err != nil {
		m.t.Error(err)
	}
	return sealed
}

// The subject of an answered request is known to its node, and for a moment to
// the broker: what is no reply of that node must not have the node refused as a
// duplicate for a minute.
func TestGarbageOnAnAnsweredInboxMarksNoDuplicate(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name      string
		say       func(node, stranger *machine, r protocol.Request, to string)
		duplicate bool
	}{
		{"no JSON", func(node, _ *machine, _ protocol.Request, to string) { node.say(to, []byte("\x00\xff")) }, false},
		{"nothing", func(node, _ *machine, _ protocol.Request, to string) { node.say(to, nil) }, false},
		{"a stranger's reply", func(_, stranger *machine, r protocol.Request, to string) { stranger.say(to, stranger.raw(r, 2)) }, false},
		{"half a reply", func(node, _ *machine, r protocol.Request, to string) {
			whole := node.raw(r, 2)
			node.say(to, whole[:len(whole)/2])
		}, false},
		{"a reply of its own name", func(node, _ *machine, r protocol.Request, to string) { node.say(to, node.raw(r, 2)) }, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			server := broker(t, nil)
			conn := dial(t, server)
			node, stranger, next := newMachine(t, server, "n1"), newMachine(t, server, "stranger"), newMachine(t, server, "n2")
			type request struct {
				protocol.Request
				inbox string
			}
			asked := make(chan request, 1)
			node.serve(subject, func(r protocol.Request, to string) {
				asked <- request{r, to}
				node.reply(r, to, 1)
			})
			next.serve("provisioning.node.n2", func(r protocol.Request, to string) { next.reply(r, to, 1) })
			if replies, err := conn.Request(within(t, 10*time.Second), "n1", "rpcutil", ping); err != nil || len(replies) != 1 {
				t.Fatalf("got %v, %v, want the node's reply", replies, err)
			}
			first := <-asked
			tt.say(node, stranger, first.Request, first.inbox)
			for _, m := range []*machine{node, stranger} {
				if err := m.nc.Flush(); err != nil {
					t.Fatal(err)
				}
			}
			// messages are taken in order: once this reply is here, so was the one before
			if _, err := conn.Request(within(t, 10*time.Second), "n2", "rpcutil", ping); err != nil {
				t.Fatal(err)
			}
			if got := conn.sawTwins("n1"); got != tt.duplicate {
				t.Errorf("marked as a duplicate: %v, want %v", got, tt.duplicate)
			}
		})
	}
}

// A reply that is larger than any real one is dropped before it is decoded, also
// where the broker takes messages of that size.
func TestAReplyAboveTheLimitIsNotDelivered(t *testing.T) {
	t.Parallel()
	server := broker(t, func(o *natsd.Options) { o.MaxPayload = MaxReply + 1<<20 })
	conn := dial(t, server)
	node := newMachine(t, server, "n1")
	node.serve(subject, func(r protocol.Request, to string) {
		for _, size := range []int{MaxReply + 1, MaxReply} {
			node.say(to, grown(node.raw(r, size), size))
		}
	})
	replies, err := conn.Request(within(t, time.Minute), "n1", "rpcutil", ping)
	if err != nil || len(replies) != 1 || string(replies[0].Data) != "8388608" {
		t.Errorf("got %d replies, %v, want the one of %d bytes alone", len(replies), err, MaxReply)
	}
}

// grown is a reply with blanks behind it, which JSON allows.
func grown(reply []byte, size int) []byte {
	return append(reply, bytes.Repeat([]byte(" "), size-len(reply))...)
}
