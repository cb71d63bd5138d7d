package fleet

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"choria-provision/provision"

	"github.com/choria-io/go-choria/inter"
	"github.com/choria-io/go-choria/protocol"
	v1 "github.com/choria-io/go-choria/protocol/v1"
	v2 "github.com/choria-io/go-choria/protocol/v2"
	rpcclient "github.com/choria-io/go-choria/providers/agent/mcorpc/client"
	"github.com/google/go-cmp/cmp"
)

// sums is as much of a security provider as reading a reply takes.
type sums struct {
	inter.SecurityProvider
	technology inter.SecurityTechnology
}

func (s sums) BackingTechnology() inter.SecurityTechnology { return s.technology }

func (s sums) ChecksumBytes(data []byte) []byte {
	sum := sha256.Sum256(data)
	return sum[:]
}

func TestGoChoriaReadsTheReplies(t *testing.T) {
	t.Parallel()
	text, err := body("jwt", provision.Reply{OK: true, Data: json.RawMessage(`{"jwt":"a"}`)})
	if err != nil {
		t.Fatal(err)
	}
	read := map[protocol.ProtocolVersion]func([]byte) (protocol.Reply, error){
		protocol.RequestV1: func(data []byte) (protocol.Reply, error) {
			transport, err := v1.NewTransportFromJSON(data)
			if err != nil {
				return nil, err
			}
			secure, err := v1.NewSecureReplyFromTransport(transport, sums{technology: inter.SecurityTechnologyX509}, false)
			if err != nil {
				return nil, err
			}
			return v1.NewReplyFromSecureReply(secure)
		},
		protocol.RequestV2: func(data []byte) (protocol.Reply, error) {
			transport, err := v2.NewTransportFromJSON(data)
			if err != nil {
				return nil, err
			}
			secure, err := v2.NewSecureReplyFromTransport(transport, sums{technology: inter.SecurityTechnologyED25519JWT}, false)
			if err != nil {
				return nil, err
			}
			return v2.NewReplyFromSecureReply(secure)
		},
	}
	for version, parse := range read {
		data, err := seal(request{version: version, id: "id1", agent: "choria_provision"}, "sim1.example.net", text)
		if err != nil {
			t.Fatal(err)
		}
		reply, err := parse(data)
		if err != nil {
			t.Fatalf("%s: %v\n%s", version, err, data)
		}
		got := []string{reply.RequestID(), reply.SenderID(), reply.Agent()}
		if diff := cmp.Diff([]string{"id1", "sim1.example.net", "choria_provision"}, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", version, diff)
		}
		var rpc rpcclient.RPCReply
		if err := json.Unmarshal(reply.Message(), &rpc); err != nil || string(rpc.Data) != `{"jwt":"a"}` || rpc.Statuscode != 0 {
			t.Errorf("%s: got %+v, %v, want the data", version, rpc, err)
		}
	}
}

func TestRefusalsCarryTheirWords(t *testing.T) {
	t.Parallel()
	text, err := body("jwt", provision.Reply{Message: "no"})
	if err != nil {
		t.Fatal(err)
	}
	var rpc rpcclient.RPCReply
	if err := json.Unmarshal(text, &rpc); err != nil || rpc.Statuscode != 1 || rpc.Statusmsg != "no" {
		t.Errorf("got %+v, %v, want status 1 and the words", rpc, err)
	}
}

// asked is a version 1 request as go-choria's client encodes it.
func asked(t *testing.T, agents []string, made time.Time) []byte {
	t.Helper()
	inner := marshal(t, &v1.Request{
		Protocol: protocol.RequestV1, MessageBody: `{"agent":"rpcutil"}`,
		Envelope: &v1.RequestEnvelope{RequestID: "id1", Agent: "rpcutil", TTL: 60, Time: made.Unix(), Filter: &protocol.Filter{Agent: agents}},
	})
	secure := marshal(t, &v1.SecureRequest{Protocol: protocol.SecureRequestV1, MessageBody: string(inner)})
	return marshal(t, &v1.TransportMessage{Protocol: protocol.TransportV1, Data: secure, Headers: &v1.TransportHeaders{ReplyTo: "back"}})
}

func marshal(t *testing.T, v any) []byte {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestRequestsAreReadAsAServerDoes(t *testing.T) {
	t.Parallel()
	got, err := open(asked(t, []string{"choria_provision"}, time.Now()))
	want := request{protocol.RequestV1, "id1", "rpcutil", "back", []byte(`{"agent":"rpcutil"}`)}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(request{})); diff != "" || err != nil {
		t.Errorf("got error %v (-want +got):\n%s", err, diff)
	}
	if _, err := open(asked(t, []string{"puppet"}, time.Now())); !errors.Is(err, errNotForUs) {
		t.Errorf("another agent's filter: got %v, want it passed over", err)
	}
	if _, err := open(asked(t, nil, time.Now().Add(-time.Hour))); err == nil {
		t.Error("an hour old request: got no error, want one")
	}
	for _, text := range []string{"", "{}", `{"protocol":"choria:transport:1"}`, `{"protocol":"io.choria.protocol.v2.transport","data":"e30="}`} {
		if _, err := open([]byte(text)); err == nil {
			t.Errorf("%q: got no error, want one", text)
		}
	}
}
