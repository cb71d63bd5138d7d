package network

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/choria-io/go-choria/protocol"
	rpcclient "github.com/choria-io/go-choria/providers/agent/mcorpc/client"
)

// MaxReply is the size in bytes of the largest reply that is decoded; a
// broker's default limit for messages is 1 MiB.
const MaxReply = 8 << 20

// Reply is one decoded reply to a directed request. Sender, request, hash, time
// and structure were checked, its content was not: a stranger wrote it.
type Reply struct {
	Sender string
	rpcclient.RPCReply
}

// opened is what a reply says, out of all its wrappings.
type opened struct {
	protocol  protocol.ProtocolVersion
	requestID string
	sender    string
	made      time.Time // by the node's clock
	message   []byte
}

// The wrappings of a reply, as far as they matter here: protocol/v1 and
// protocol/v2 of go-choria have all of their fields.
type (
	transport struct {
		Protocol protocol.ProtocolVersion `json:"protocol"`
		Data     []byte                   `json:"data"`
	}
	secureReplyV1 struct {
		Protocol protocol.ProtocolVersion `json:"protocol"`
		Message  string                   `json:"message"`
		Hash     string                   `json:"hash"`
	}
	replyV1 struct {
		Protocol protocol.ProtocolVersion `json:"protocol"`
		Message  string                   `json:"message"`
		Envelope struct {
			RequestID string `json:"requestid"`
			SenderID  string `json:"senderid"`
			Time      int64  `json:"time"` // seconds
		} `json:"envelope"`
	}
	secureReplyV2 struct {
		Protocol protocol.ProtocolVersion `json:"protocol"`
		Reply    []byte                   `json:"reply"`
		Hash     string                   `json:"hash"`
	}
	replyV2 struct {
		Protocol protocol.ProtocolVersion `json:"protocol"`
		Message  []byte                   `json:"message"`
		Request  string                   `json:"request"`
		Sender   string                   `json:"sender"`
		Time     int64                    `json:"time"` // nanoseconds
	}
)

// open unwraps a reply of the protocol that our requests speak, and checks each
// layer's version and the hash. That is what go-choria's
// NewReplyFromTransportJSON checks; replies are not signed for us (v1 never
// signs them, and in v2 nobody in provisioning mode does).
func open(version protocol.ProtocolVersion, raw []byte) (opened, error) {
	var outer transport
	if err := json.Unmarshal(raw, &outer); err != nil {
		return opened{}, err
	}
	switch {
	case version == protocol.RequestV1 && outer.Protocol == protocol.TransportV1:
		return openV1(outer.Data)
	case version == protocol.RequestV2 && outer.Protocol == protocol.TransportV2:
		return openV2(outer.Data)
	}
	return opened{}, fmt.Errorf("transport %s to a %s", outer.Protocol, version)
}

func openV1(data []byte) (opened, error) {
	var secure secureReplyV1
	if err := json.Unmarshal(data, &secure); err != nil {
		return opened{}, err
	}
	body := []byte(secure.Message)
	if secure.Protocol != protocol.SecureReplyV1 || !isHash(secure.Hash, body) {
		return opened{}, errors.New("its hash is not that of its body")
	}
	var reply replyV1
	if err := json.Unmarshal(body, &reply); err != nil {
		return opened{}, err
	}
	if reply.Protocol != protocol.ReplyV1 {
		return opened{}, fmt.Errorf("a %s", reply.Protocol)
	}
	e := reply.Envelope
	return opened{reply.Protocol, e.RequestID, e.SenderID, time.Unix(e.Time, 0), []byte(reply.Message)}, nil
}

func openV2(data []byte) (opened, error) {
	var secure secureReplyV2
	if err := json.Unmarshal(data, &secure); err != nil {
		return opened{}, err
	}
	if secure.Protocol != protocol.SecureReplyV2 || !isHash(secure.Hash, secure.Reply) {
		return opened{}, errors.New("its hash is not that of its body")
	}
	var reply replyV2
	if err := json.Unmarshal(secure.Reply, &reply); err != nil {
		return opened{}, err
	}
	if reply.Protocol != protocol.ReplyV2 {
		return opened{}, fmt.Errorf("a %s", reply.Protocol)
	}
	return opened{reply.Protocol, reply.Request, reply.Sender, time.Unix(0, reply.Time), reply.Message}, nil
}

// isHash compares with the sum every security provider of go-choria makes.
func isHash(hash string, body []byte) bool {
	sum := sha256.Sum256(body)
	return hash == base64.StdEncoding.EncodeToString(sum[:])
}

// decode checks that a reply is a Choria reply, from the node asked, to this
// very request, and made in its time.
func (c *Conn) decode(x *exchange, raw []byte) (Reply, error) {
	o, err := open(c.sender.version, raw)
	if err != nil {
		return Reply{}, fmt.Errorf("not a Choria reply: %w", err)
	}
	switch {
	case o.requestID != x.requestID:
		return Reply{}, errors.New("a reply to another request")
	case x.identity != "" && o.sender != x.identity:
		return Reply{}, fmt.Errorf("a reply from %q", o.sender)
	case !c.inTime(x, o.made):
		return Reply{}, fmt.Errorf("a reply made at %s", o.made.UTC().Format(time.RFC3339))
	}
	c.clocks.learn(o.sender, o.made)
	if x.identity == "" {
		return Reply{Sender: o.sender}, nil
	}
	var rpc rpcclient.RPCReply
	if err := json.Unmarshal(o.message, &rpc); err != nil {
		return Reply{}, fmt.Errorf("not an RPC reply: %w", err)
	}
	return Reply{Sender: o.sender, RPCReply: rpc}, nil
}

// inTime bounds a reply's age. A node answers only requests whose stamp its own
// clock finds within their time to live (server/processor.go of go-choria), so
// no honest reply is further off than that; v1 tells whole seconds.
func (c *Conn) inTime(x *exchange, made time.Time) bool {
	ttl := c.sender.lifetime() + time.Second
	return made.After(x.sent.Add(-ttl)) && made.Before(time.Now().Add(ttl))
}
