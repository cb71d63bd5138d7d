package fleet

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/choria-io/go-choria/protocol"
	v1 "github.com/choria-io/go-choria/protocol/v1"
	v2 "github.com/choria-io/go-choria/protocol/v2"
	"github.com/choria-io/go-choria/providers/agent/mcorpc"

	"choria-provision/provision"
)

// request is what a node reads of a request.
type request struct {
	version protocol.ProtocolVersion
	id      string
	agent   string
	replyTo string
	body    []byte
}

// errNotForUs is a broadcast that a node in provisioning mode passes over.
var errNotForUs = errors.New("a filter that does not match")

// open reads a request in go-choria's own structures and skips its schemas. As
// a node in provisioning mode, which has no keys yet, it does not verify the
// signature (server/processor.go of go-choria); filter and age are checked.
func open(data []byte) (request, error) {
	var which struct {
		Protocol protocol.ProtocolVersion `json:"protocol"`
	}
	if err := json.Unmarshal(data, &which); err != nil {
		return request{}, err
	}
	switch which.Protocol {
	case protocol.TransportV1:
		return openV1(data)
	case protocol.TransportV2:
		return openV2(data)
	}
	return request{}, fmt.Errorf("a transport of version %q", which.Protocol)
}

func openV1(data []byte) (request, error) {
	var t v1.TransportMessage
	var s v1.SecureRequest
	var r v1.Request
	for _, err := range []error{json.Unmarshal(data, &t), json.Unmarshal(t.Data, &s), json.Unmarshal([]byte(s.MessageBody), &r)} {
		if err != nil {
			return request{}, err
		}
	}
	if t.Headers == nil || r.Envelope == nil {
		return request{}, errors.New("a request without headers or envelope")
	}
	e := r.Envelope
	if err := admit(time.Unix(e.Time, 0), e.TTL, e.Filter); err != nil {
		return request{}, err
	}
	return request{r.Protocol, e.RequestID, e.Agent, t.Headers.ReplyTo, plain([]byte(r.MessageBody))}, nil
}

func openV2(data []byte) (request, error) {
	var t v2.TransportMessage
	var s v2.SecureRequest
	var r v2.Request
	for _, err := range []error{json.Unmarshal(data, &t), json.Unmarshal(t.Data, &s), json.Unmarshal(s.MessageBody, &r)} {
		if err != nil {
			return request{}, err
		}
	}
	if t.Headers == nil || len(s.Signature) == 0 || s.CallerJWT == "" {
		return request{}, errors.New("a request without headers, signature or caller")
	}
	e := r.ReqEnvelope
	if err := admit(time.Unix(0, e.Time), e.TTL, e.Filter); err != nil {
		return request{}, err
	}
	return request{r.Protocol, e.RequestID, e.Agent, t.Headers.ReplyTo, plain(r.MessageBody)}, nil
}

// admit is what server/processor.go of go-choria asks of a request.
func admit(made time.Time, ttl int, filter *protocol.Filter) error {
	limit := time.Duration(ttl)*time.Second + time.Second // v1 tells whole seconds
	if age := time.Since(made); age > limit || age < -limit {
		return fmt.Errorf("a request made at %s with a time to live of %d s", made.UTC().Format(time.RFC3339), ttl)
	}
	if filter == nil {
		return nil
	}
	for _, agent := range filter.Agent {
		if !slices.Contains(agents, agent) {
			return errNotForUs
		}
	}
	return nil
}

// agents are those of a server in provisioning mode.
var agents = []string{"choria_provision", "choria_util", "discovery", "rpcutil"}

// plain takes off the base64 that some clients put around a body.
func plain(body []byte) []byte {
	if text, err := base64.StdEncoding.DecodeString(string(body)); err == nil {
		return text
	}
	return body
}

// body is the RPC reply as providers/agent/mcorpc of go-choria encodes it.
func body(action string, r provision.Reply) ([]byte, error) {
	reply := mcorpc.Reply{Action: action, Statusmsg: "OK", Data: r.Data}
	if !r.OK {
		reply.Statuscode, reply.Statusmsg, reply.Data = mcorpc.Aborted, r.Message, map[string]any{}
	}
	return json.Marshal(reply)
}

// seal wraps a body as a reply of the node to the request, in the protocol
// that the request spoke.
func seal(r request, node string, body []byte) ([]byte, error) {
	if r.version == protocol.RequestV2 {
		return sealV2(r, node, body)
	}
	return sealV1(r, node, body)
}

func sealV1(r request, node string, body []byte) ([]byte, error) {
	reply, err := json.Marshal(&v1.Reply{
		Protocol: protocol.ReplyV1, MessageBody: string(body),
		Envelope: &v1.ReplyEnvelope{RequestID: r.id, SenderID: node, Agent: r.agent, Time: time.Now().Unix()},
	})
	if err != nil {
		return nil, err
	}
	secure, err := json.Marshal(&v1.SecureReply{Protocol: protocol.SecureReplyV1, MessageBody: string(reply), Hash: hash(reply)})
	if err != nil {
		return nil, err
	}
	return json.Marshal(&v1.TransportMessage{
		Protocol: protocol.TransportV1, Data: secure,
		Headers: &v1.TransportHeaders{MCollectiveSender: node},
	})
}

func sealV2(r request, node string, body []byte) ([]byte, error) {
	reply, err := json.Marshal(&v2.Reply{
		Protocol: protocol.ReplyV2, MessageBody: body, Request: r.id,
		Sender: node, SendingAgent: r.agent, TimeStamp: time.Now().UnixNano(),
	})
	if err != nil {
		return nil, err
	}
	secure, err := json.Marshal(&v2.SecureReply{Protocol: protocol.SecureReplyV2, MessageBody: reply, Hash: hash(reply)})
	if err != nil {
		return nil, err
	}
	return json.Marshal(&v2.TransportMessage{
		Protocol: protocol.TransportV2, Data: secure,
		Headers: &v2.TransportHeaders{Sender: node},
	})
}

func hash(b []byte) string {
	sum := sha256.Sum256(b)
	return base64.StdEncoding.EncodeToString(sum[:])
}
