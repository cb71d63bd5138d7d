package network

import (
	"crypto/sha256"
	"fmt"
	"os"
	"strings"

	"github.com/choria-io/go-choria/choria"
	"github.com/nats-io/nats.go"
)

// inboxOf returns a new inbox that names its host, so that replies to other hosts
// with the same client identity can be told apart.
//
// go-choria: a client may listen to COLLECTIVE.reply.HASH-OF-CALLER.> only.
func inboxOf(s sender, host string) string {
	inbox := choria.Inbox(s.collective, s.caller)
	at := strings.LastIndexByte(inbox, '.') + 1
	return inbox[:at] + hostTag(host) + inbox[at:]
}

func hostTag(host string) string {
	return fmt.Sprintf("%x-", sha256.Sum256([]byte(host)))[56:]
}

// hostName is empty on a host that has none: then such hosts count as one.
func hostName() string {
	name, _ := os.Hostname()
	return name
}

// OnSharedIdentity has tell called, once, when during a broadcast a reply comes
// for another host that uses this client identity. A node's own lock keeps only
// clients of different identities apart (go-choria: the provision agent).
func (c *Conn) OnSharedIdentity(tell func()) { c.shared.Store(&tell) }

// listenForOthers notices replies to other hosts until the returned function is
// called. One that is not allowed to notices none.
func (c *Conn) listenForOthers() (end func()) {
	if c.shared.Load() == nil {
		return func() {}
	}
	own := c.inbox[:strings.LastIndexByte(c.inbox, '.')+1]
	sub, err := c.nc.Subscribe(own+">", func(m *nats.Msg) {
		if strings.HasPrefix(m.Subject, own+hostTag(c.host)) || isNobody(m) {
			return
		}
		if tell := c.shared.Swap(nil); tell != nil {
			(*tell)()
		}
	})
	if err != nil {
		return func() {}
	}
	return func() { _ = sub.Unsubscribe() } // fails only on a connection that is gone
}
