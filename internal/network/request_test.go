package network

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/choria-io/go-choria/protocol"
	"github.com/google/go-cmp/cmp"
	natsd "github.com/nats-io/nats-server/v2/server"
)

var ping = []byte(`{"agent":"rpcutil","action":"ping","data":{}}`)

const subject = "provisioning.node.n1"

func TestRequestReachesTheNodeAndItsReplyUs(t *testing.T) {
	server := broker(t, nil)
	conn := dial(t, server)
	node := newMachine(t, server, "n1")
	node.serve(subject, func(request protocol.Request, replyTo string) {
		var asked map[string]string
		if err := json.Unmarshal(request.Message(), &asked); err != nil || asked["hello"] != "node" {
			t.Errorf("got %s, %v, want the body that was sent", request.Message(), err)
		}
		if filter, _ := request.Filter(); !cmp.Equal(filter.AgentFilters(), []string{"rpcutil"}) {
			t.Errorf("got filter %v, want the agent", filter.AgentFilters())
		}
		if request.CallerID() != "choria=provisioner.mcollective" || request.Collective() != "provisioning" {
			t.Errorf("got %s in %s", request.CallerID(), request.Collective())
		}
		node.reply(request, replyTo, map[string]int{"answer": 42})
	})
	replies, err := conn.Request(within(t, 10*time.Second), "n1", "rpcutil", []byte(`{"hello":"node"}`))
	if err != nil || len(replies) != 1 {
		t.Fatalf("got %v, %v, want one reply", replies, err)
	}
	if replies[0].Sender != "n1" || string(replies[0].Data) != `{"answer":42}` {
		t.Errorf("got %+v", replies[0])
	}
}

func TestNobodyThereIsToldAtOnce(t *testing.T) {
	conn := dial(t, broker(t, nil))
	if _, err := conn.Request(within(t, time.Minute), "n1", "rpcutil", ping); !errors.Is(err, ErrNobody) {
		t.Errorf("got %v, want %v", err, ErrNobody)
	}
}

func TestRepliesThatAreNotTheNodesArePassedOver(t *testing.T) {
	server := broker(t, nil)
	conn := dial(t, server)
	node, stranger := newMachine(t, server, "n1"), newMachine(t, server, "stranger")
	tests := []struct {
		name string
		say  func(request protocol.Request, replyTo string)
		want string
	}{
		{"another sender", func(r protocol.Request, to string) { stranger.reply(r, to, 1) }, "stranger"},
		{"no JSON", func(_ protocol.Request, to string) { stranger.say(to, []byte("\x00\xff")) }, "not a Choria reply"},
		{"another request", func(r protocol.Request, to string) {
			other, err := node.fw.NewRequest(protocol.RequestV1, "rpcutil", "x", "y", 60, "0123456789abcdef0123456789abcdef", "provisioning")
			if err != nil {
				t.Error(err)
				return
			}
			other.SetMessage(ping)
			node.reply(other, to, 1)
		}, "another request"},
		{"nothing", func(protocol.Request, string) {}, ErrNoReply.Error()},
	}
	current := make(chan func(protocol.Request, string), 1)
	node.serve(subject, func(r protocol.Request, to string) { (<-current)(r, to) })
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			current <- tt.say
			_, err := conn.Request(within(t, 200*time.Millisecond), "n1", "rpcutil", ping)
			if !errors.Is(err, ErrNoReply) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want no reply, and %q", err, tt.want)
			}
		})
		t.Run(tt.name+" before the right one", func(t *testing.T) {
			current <- func(r protocol.Request, to string) {
				tt.say(r, to)
				stranger.nc.Flush()
				node.reply(r, to, "right")
			}
			replies, err := conn.Request(within(t, 10*time.Second), "n1", "rpcutil", ping)
			if err != nil || len(replies) != 1 || string(replies[0].Data) != `"right"` {
				t.Errorf("got %v, %v, want the node's own reply", replies, err)
			}
		})
	}
}

func TestTwins(t *testing.T) {
	server := broker(t, nil)
	conn := dial(t, server)
	one, other := newMachine(t, server, "n1"), newMachine(t, server, "n1")
	release := make(chan struct{})
	one.serve(subject, func(r protocol.Request, to string) { one.reply(r, to, 1) })
	other.serve(subject, func(r protocol.Request, to string) { <-release; other.reply(r, to, 2) })

	if replies, err := conn.Request(within(t, 10*time.Second), "n1", "rpcutil", ping); err != nil || len(replies) != 1 {
		t.Fatalf("got %v, %v, want the first twin's reply", replies, err)
	}
	close(release) // the second twin's reply to the first request comes now
	if err := other.nc.Flush(); err != nil {
		t.Fatal(err)
	}
	for !conn.sawTwins("n1") {
		if err := conn.nc.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := conn.Request(within(t, 10*time.Second), "n1", "rpcutil", ping); !errors.Is(err, ErrTwins) {
		t.Errorf("got %v, want %v", err, ErrTwins)
	}
	if _, err := conn.Request(within(t, 10*time.Second), "n2", "rpcutil", ping); errors.Is(err, ErrTwins) {
		t.Errorf("got %v for another node", err)
	}
}

func TestBroadcastHearsEverybodyAndDoublesToo(t *testing.T) {
	server := broker(t, nil)
	conn := dial(t, server)
	for _, name := range []string{"n1", "n2", "n2", "n3"} {
		m := newMachine(t, server, name)
		m.serve("provisioning.broadcast.agent.discovery", func(r protocol.Request, to string) {
			if filter, _ := r.Filter(); !cmp.Equal(filter.AgentFilters(), []string{"choria_provision"}) {
				t.Errorf("got filter %v, want the agent", filter.AgentFilters())
			}
			m.reply(r, to, "pong")
		})
	}
	senders, err := conn.Broadcast(t.Context(), "choria_provision", Window{First: 10 * time.Second, Quiet: 500 * time.Millisecond, Total: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for _, sender := range senders {
		count[sender]++
	}
	if diff := cmp.Diff(map[string]int{"n1": 1, "n2": 2, "n3": 1}, count); diff != "" {
		t.Errorf("senders (-want +got):\n%s", diff)
	}
}

func TestBroadcastToNobodyEndsAfterQuiet(t *testing.T) {
	conn := dial(t, broker(t, nil))
	senders, err := conn.Broadcast(t.Context(), "choria_provision", Window{First: time.Hour, Quiet: time.Millisecond, Total: time.Hour})
	if err != nil || len(senders) != 0 {
		t.Errorf("got %v, %v, want nobody", senders, err)
	}
}

func TestARequestLargerThanTheBrokerTakesIsNotSent(t *testing.T) {
	t.Parallel()
	server := broker(t, func(o *natsd.Options) { o.MaxPayload = 16 << 10 })
	conn := dial(t, server)
	node := newMachine(t, server, "n1")
	node.serve(subject, func(r protocol.Request, replyTo string) { node.reply(r, replyTo, 1) })
	_, err := conn.Request(within(t, 10*time.Second), "n1", "rpcutil", []byte(strings.Repeat("x", 14<<10)))
	if !errors.Is(err, ErrTooLarge) || !strings.Contains(err.Error(), "a message of 14 KiB") || !strings.HasSuffix(err.Error(), "is 16 KiB") {
		t.Errorf("got %v, want both sizes", err)
	}
	if _, err := conn.Request(within(t, 10*time.Second), "n1", "rpcutil", ping); err != nil {
		t.Errorf("got %v for the next request, want a reply", err)
	}
}
