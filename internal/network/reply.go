package network

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/choria-io/go-choria/protocol"
	v1 "github.com/choria-io/go-choria/protocol/v1"
	v2 "github.com/choria-io/go-choria/protocol/v2"
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

// open unwraps a reply of the protocol that our requests speak, and checks each
// layer's version and the hash. That is what go-choria's
// NewReplyFromTransportJSON checks, and the layers are read into go-choria's own
// types, so that what it cannot read is refused here as well; replies are not
// signed for us (v1 never signs them, and in v2 no node in provisioning mode
// does).
func open(version protocol.ProtocolVersion, raw []byte) (opened, error) {
	switch version {
	case protocol.RequestV1:
		return openV1(raw)
	case protocol.RequestV2:
		return openV2(raw)
	}
	return opened{}, fmt.Errorf("a reply to a %s", version)
}

var (
	errNoHeaders = errors.New("its headers are null")
	errWrongHash = errors.New("its hash is not that of its body")
)

func openV1(raw []byte) (opened, error) {
	outer := v1.TransportMessage{Headers: &v1.TransportHeaders{}}
	if err := json.Unmarshal(raw, &outer); err != nil {
		return opened{}, err
	}
	switch {
	case outer.Protocol != protocol.TransportV1:
		return opened{}, fmt.Errorf("transport %s to a %s", outer.Protocol, protocol.RequestV1)
	case outer.Headers == nil:
		return opened{}, errNoHeaders
	}
	var secure v1.SecureReply
	if err := json.Unmarshal(outer.Data, &secure); err != nil {
		return opened{}, err
	}
	body := []byte(secure.MessageBody)
	if secure.Protocol != protocol.SecureReplyV1 || !isHash(secure.Hash, body) {
		return opened{}, errWrongHash
	}
	reply := v1.Reply{Envelope: &v1.ReplyEnvelope{}}
	if err := json.Unmarshal(body, &reply); err != nil {
		return opened{}, err
	}
	switch e := reply.Envelope; {
	case reply.Protocol != protocol.ReplyV1:
		return opened{}, fmt.Errorf("a %s", reply.Protocol)
	case e == nil:
		return opened{}, errors.New("its envelope is null")
	default:
		return opened{reply.Protocol, e.RequestID, e.SenderID, time.Unix(e.Time, 0), []byte(reply.MessageBody)}, nil
	}
}

func openV2(raw []byte) (opened, error) {
	outer := v2.TransportMessage{Headers: &v2.TransportHeaders{}}
	if err := json.Unmarshal(raw, &outer); err != nil {
		return opened{}, err
	}
	switch {
	case outer.Protocol != protocol.TransportV2:
		return opened{}, fmt.Errorf("transport %s to a %s", outer.Protocol, protocol.RequestV2)
	case outer.Headers == nil:
		return opened{}, errNoHeaders
	}
	var secure v2.SecureReply
	if err := json.Unmarshal(outer.Data, &secure); err != nil {
		return opened{}, err
	}
	if secure.Protocol != protocol.SecureReplyV2 || !isHash(secure.Hash, secure.MessageBody) {
		return opened{}, errWrongHash
	}
	var reply v2.Reply
	if err := json.Unmarshal(secure.MessageBody, &reply); err != nil {
		return opened{}, err
	}
	if reply.Protocol != protocol.ReplyV2 {
		return opened{}, fmt.Errorf("a %s", reply.Protocol)
	}
	return opened{reply.Protocol, reply.Request, reply.Sender, time.Unix(0, reply.TimeStamp), reply.MessageBody}, nil
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
