package network

import (
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

func TestLargeFleetIsHeardToTheLastReply(t *testing.T) {
	const fleet = 10_000
	server := broker(t, nil)
	conn := dial(t, server)
	choir(t, server.ClientURL(), fleet)
	senders, err := conn.Broadcast(t.Context(), "choria_provision", Window{First: time.Minute, Quiet: 300 * time.Millisecond, Total: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, sender := range senders {
		seen[sender] = true
	}
	if len(senders) != fleet || len(seen) != fleet {
		t.Errorf("got %d replies from %d nodes, want %d", len(senders), len(seen), fleet)
	}
}

// Where the first one takes a second, half a second more is no silence.
func TestSlowFleetIsHeardToTheLastReply(t *testing.T) {
	t.Parallel()
	server := broker(t, nil)
	conn := dial(t, server)
	answerAll(t, server.ClientURL(), "provisioning.broadcast.agent.discovery", func(nc *nats.Conn, m *nats.Msg, id string) error {
		for i, after := range []time.Duration{time.Second, 1500 * time.Millisecond} {
			time.AfterFunc(after, func() { _ = nc.Publish(m.Reply, replyOf(id, fmt.Sprintf("n%d", i+1))) })
		}
		return nil
	})
	senders, err := conn.Broadcast(t.Context(), "choria_provision", Window{First: time.Minute, Quiet: 10 * time.Millisecond, Total: time.Minute})
	if err != nil || fmt.Sprint(senders) != "[n1 n2]" {
		t.Errorf("got %v, %v, want both", senders, err)
	}
}

// One node can send what the broker sends when nobody listens.
func TestNodeThatDeniesEverybodySilencesNobody(t *testing.T) {
	server := broker(t, nil)
	conn := dial(t, server)
	answerAll(t, server.ClientURL(), "provisioning.broadcast.agent.discovery", func(nc *nats.Conn, m *nats.Msg, id string) error {
		for range 3 {
			denial := &nats.Msg{Subject: m.Reply, Header: nats.Header{"Status": []string{"503"}}}
			if err := nc.PublishMsg(denial); err != nil {
				return err
			}
		}
		return nc.Publish(m.Reply, replyOf(id, "n1"))
	})
	senders, err := conn.Broadcast(t.Context(), "choria_provision", Window{First: time.Minute, Quiet: 500 * time.Millisecond, Total: time.Minute})
	if err != nil || fmt.Sprint(senders) != "[n1]" {
		t.Errorf("got %v, %v, want n1", senders, err)
	}
}

func TestFloodOfNonsenseEndsWithTheWindow(t *testing.T) {
	server := broker(t, nil)
	conn := dial(t, server)
	done := t.Context().Done()
	answerAll(t, server.ClientURL(), "provisioning.broadcast.agent.discovery", func(nc *nats.Conn, m *nats.Msg, id string) error {
		if err := nc.Publish(m.Reply, replyOf(id, "n1")); err != nil {
			return err
		}
		go func() {
			for nc.Publish(m.Reply, []byte("{}")) == nil && nc.FlushTimeout(time.Minute) == nil {
				select {
				case <-done:
					return
				default:
				}
			}
		}()
		return nil
	})
	senders, err := conn.Broadcast(within(t, 20*time.Second), "choria_provision", Window{First: 10 * time.Second, Quiet: 50 * time.Millisecond, Total: time.Second})
	if err != nil || fmt.Sprint(senders) != "[n1]" {
		t.Errorf("got %v, %v, want n1", senders, err)
	}
}
