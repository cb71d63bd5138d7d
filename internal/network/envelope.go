package network

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/choria-io/go-choria/inter"
	"github.com/choria-io/go-choria/protocol"
)

// sender is who our requests come from. It is read once for each connection,
// as the reply subjects are bound to it; go-choria's security provider reads
// the token and the keys again for each signature, so that rotated ones count
// at once.
type sender struct {
	identity   string
	caller     string
	collective string
	ttl        int // seconds
	version    protocol.ProtocolVersion
}

// lifetime is the time from a request's stamp in which a node accepts it.
func (s sender) lifetime() time.Duration { return time.Duration(s.ttl) * time.Second }

// letter is one request before it is signed. replyTo is where replies come to.
type letter struct {
	id, agent, replyTo string
	runs               string // the agent a node must run to answer
	body               []byte
	stamp              time.Time // when it was made, as the node is told; zero: now
}

// check has go-choria validate once what all requests have in common. It does
// that for every message it builds, and compiles a JSON schema each time: more
// than everything else about a request together.
func (s sender) check(fw inter.Framework) error {
	id, err := fw.NewRequestID()
	if err != nil {
		return err
	}
	request, err := s.request(fw, letter{id: id, agent: "discovery", body: []byte("{}")})
	if err != nil {
		return err
	}
	_, err = request.JSON()
	return err
}

func (s sender) request(fw inter.Framework, l letter) (protocol.Request, error) {
	request, err := fw.NewRequest(s.version, l.agent, s.identity, s.caller, s.ttl, l.id, s.collective)
	if err != nil {
		return nil, err
	}
	request.SetMessage(l.body)
	request.NewFilter().AddAgentFilter(l.runs)
	if l.stamp.IsZero() {
		return request, nil
	}
	return request, setTime(request, l.stamp)
}

// seal encodes and signs a request as choria.Framework's
// NewRequestTransportForMessage does, less the validations: sender and letter
// fill every field, and check saw one of them.
func (s sender) seal(ctx context.Context, fw inter.Framework, l letter) ([]byte, error) {
	request, err := s.request(fw, l)
	if err != nil {
		return nil, fmt.Errorf("building a request: %w", err)
	}
	secure, err := fw.NewSecureRequest(ctx, plainRequest{request})
	if err != nil {
		return nil, fmt.Errorf("signing a request: %w", err)
	}
	transport, err := fw.NewTransportForSecureRequest(plainSecureRequest{secure})
	if err != nil {
		return nil, fmt.Errorf("building a request: %w", err)
	}
	transport.SetReplyTo(l.replyTo)
	data, err := json.Marshal(transport)
	if err != nil {
		return nil, fmt.Errorf("building a request: %w", err)
	}
	return data, nil
}

// plainRequest and plainSecureRequest encode go-choria's messages without
// validating what comes out.
type (
	plainRequest       struct{ protocol.Request }
	plainSecureRequest struct{ protocol.SecureRequest }
)

// JSON implements protocol.Request.
func (r plainRequest) JSON() ([]byte, error) { return json.Marshal(r.Request) }

// JSON implements protocol.SecureRequest.
func (r plainSecureRequest) JSON() ([]byte, error) { return json.Marshal(r.SecureRequest) }
