package network

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

func TestAnotherHostWithThisClientIdentityIsNoticed(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		to   func(c *Conn) string // where a reply goes, beside that to the broadcast
		want int32
	}{
		{"nobody else", nil, 0},
		{"another process on this host", func(c *Conn) string { return inboxOf(c.sender, c.host) }, 0},
		{"a call of this process", func(c *Conn) string { return c.inbox + ".1" }, 0},
		{"another host", func(c *Conn) string { return inboxOf(c.sender, "other") + ".1" }, 1},
		{"another client identity", func(c *Conn) string {
			other := c.sender
			other.caller = "choria=other.mcollective"
			return inboxOf(other, "other")
		}, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			server := broker(t, nil)
			conn := dial(t, server)
			var noticed atomic.Int32
			conn.OnSharedIdentity(func() { noticed.Add(1) })
			answerAll(t, server.ClientURL(), "provisioning.broadcast.agent.discovery", func(nc *nats.Conn, m *nats.Msg, id string) error {
				if tt.to != nil {
					for range 3 {
						if err := nc.Publish(tt.to(conn), []byte("a reply")); err != nil {
							return err
						}
					}
				}
				return nc.Publish(m.Reply, replyOf(id, "n1"))
			})
			for range 2 {
				senders, err := conn.Broadcast(t.Context(), "choria_provision", Window{First: time.Minute, Quiet: 50 * time.Millisecond, Total: time.Minute})
				if err != nil || len(senders) != 1 {
					t.Fatalf("got %v, %v, want one node", senders, err)
				}
			}
			if got := noticed.Load(); got != tt.want {
				t.Errorf("noticed %d times, want %d", got, tt.want)
			}
		})
	}
}
