package network

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/choria-io/go-choria/choria"
	"github.com/choria-io/go-choria/protocol"
	v1 "github.com/choria-io/go-choria/protocol/v1"
	v2 "github.com/choria-io/go-choria/protocol/v2"
	"github.com/google/go-cmp/cmp"
)

// answered is a node's reply to a request of the provisioner, in the bytes of
// go-choria's servers.
func answered(tb testing.TB, p pair, id string, body []byte) []byte {
	tb.Helper()
	request, err := p.node.NewRequest(p.provisioner.RequestProtocol(), "rpcutil", "provisioner", "choria=provisioner", 60, id, "provisioning")
	if err != nil {
		tb.Fatal(err)
	}
	request.SetMessage(ping)
	reply, err := p.node.NewReply(request)
	if err != nil {
		tb.Fatal(err)
	}
	reply.SetMessage(body)
	secure, err := p.node.NewSecureReply(reply)
	if err != nil {
		tb.Fatal(err)
	}
	transport, err := p.node.NewTransportForSecureReply(secure)
	if err != nil {
		tb.Fatal(err)
	}
	data, err := transport.JSON()
	if err != nil {
		tb.Fatal(err)
	}
	return data
}

// stockOpen is how go-choria's clients read a reply. It panics on some that
// strangers can make.
func stockOpen(fw *choria.Framework, data []byte) (o opened, err error) {
	defer func() {
		if recover() != nil {
			err = errors.New("panic")
		}
	}()
	reply, err := fw.NewReplyFromTransportJSON(data, false)
	if err != nil {
		return opened{}, err
	}
	o = opened{requestID: reply.RequestID(), sender: reply.SenderID(), made: reply.Time(), message: reply.Message()}
	switch reply := reply.(type) {
	case *v1.Reply:
		o.protocol = reply.Protocol
	case *v2.Reply:
		o.protocol = reply.Protocol
	}
	return o, nil
}

const someID = "0123456789abcdef0123456789abcdef"

func TestRepliesReadAsGoChoriaReadsThem(t *testing.T) {
	for _, security := range securities {
		for _, signed := range []bool{true, false} {
			name := security.name
			if !signed {
				name += " from a node that does not sign"
			}
			t.Run(name, func(t *testing.T) {
				p := security.make(t)
				if !signed {
					cfg := p.node.Configuration()
					cfg.Choria.ChoriaSecuritySignReplies = false
					p.node = framework(t, cfg)
				}
				data := answered(t, p, someID, awkward)
				got, err := open(p.provisioner.RequestProtocol(), data)
				if err != nil {
					t.Fatal(err)
				}
				want, err := stockOpen(p.provisioner, data)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want, got, cmp.AllowUnexported(opened{})); diff != "" {
					t.Errorf("a reply (-stock +ours):\n%s", diff)
				}
				if got.requestID != someID || got.sender != "n1" || string(got.message) != string(awkward) {
					t.Errorf("got %+v", got)
				}
			})
		}
	}
}

func TestRepliesThatAreNone(t *testing.T) {
	insecure := newInsecurePair(t)
	one := answered(t, insecure, someID, ping)
	request := stock(t, insecure.provisioner, letterOf(t, insecure.provisioner))
	issuer := newIssuerPair(t)
	two := answered(t, issuer, someID, ping)
	tests := []struct {
		name    string
		version protocol.ProtocolVersion
		data    []byte
		want    string
	}{
		{"v1 where v2 is spoken", protocol.RequestV2, one, "choria:transport:1"},
		{"v2 where v1 is spoken", protocol.RequestV1, two, "v2.transport"},
		{"null", protocol.RequestV1, []byte("null"), "transport"},
		{"null inside v1", protocol.RequestV1, wrapped(protocol.TransportV1, "null"), "hash"},
		{"null inside v2", protocol.RequestV2, wrapped(protocol.TransportV2, "null"), "hash"},
		{"no JSON inside", protocol.RequestV1, wrapped(protocol.TransportV1, "{"), "JSON"},
		{"cut short", protocol.RequestV1, one[:len(one)/2], "JSON"},
		{"more behind it", protocol.RequestV1, append(one[:len(one):len(one)], one...), "after top-level value"},
		{"a request", protocol.RequestV1, request, "hash"},
		{"v1 with another body", protocol.RequestV1, rebody(t, one, "message"), "hash"},
		{"v1 with headers of null", protocol.RequestV1, remade(t, one, "headers", nil), "headers"},
		{"v2 with headers of null", protocol.RequestV2, remade(t, two, "headers", nil), "headers"},
		{"v1 with headers that are a list", protocol.RequestV1, remade(t, one, "headers", []string{}), "headers"},
		{"v2 with a trace that is none", protocol.RequestV2, remade(t, two, "headers", map[string]any{"trace": 1}), "trace"},
		{"v1 from an agent that is a number", protocol.RequestV1, inside(protocol.TransportV1, `{"protocol":"choria:reply:1","envelope":{"agent":1}}`), "agent"},
		{"v1 with an envelope of null", protocol.RequestV1, inside(protocol.TransportV1, `{"protocol":"choria:reply:1","envelope":null}`), "envelope"},
		{"v2 from an agent that is a number", protocol.RequestV2, inside(protocol.TransportV2, `{"protocol":"io.choria.protocol.v2.reply","agent":1}`), "agent"},
		{"v2 with a signature that is a number", protocol.RequestV2, wrapped(protocol.TransportV2, `{"signature":1}`), "signature"},
		{"v2 with another body", protocol.RequestV2, rebody(t, two, "reply"), "hash"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if o, err := open(tt.version, tt.data); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %+v, %v, want an error with %q", o, err, tt.want)
			}
		})
	}
}

func wrapped(version protocol.ProtocolVersion, inner string) []byte {
	return encoded(map[string]any{"protocol": version, "data": []byte(inner), "headers": map[string]any{}})
}

// remade gives a field of a reply's transport another value.
func remade(tb testing.TB, data []byte, key string, value any) []byte {
	tb.Helper()
	var outer map[string]any
	if err := json.Unmarshal(data, &outer); err != nil {
		tb.Fatal(err)
	}
	outer[key] = value
	return encoded(outer)
}

// inside puts the text of a reply into what goes around it, with its hash.
func inside(version protocol.ProtocolVersion, body string) []byte {
	secure := map[string]any{"protocol": protocol.SecureReplyV1, "message": body, "hash": hashOf([]byte(body))}
	if version == protocol.TransportV2 {
		secure = map[string]any{"protocol": protocol.SecureReplyV2, "reply": []byte(body), "hash": hashOf([]byte(body))}
	}
	return wrapped(version, string(encoded(secure)))
}

// rebody changes a reply's body and leaves its hash.
func rebody(tb testing.TB, data []byte, key string) []byte {
	tb.Helper()
	var outer, inner map[string]any
	var body struct{ Data []byte }
	if err := errors.Join(json.Unmarshal(data, &outer), json.Unmarshal(data, &body), json.Unmarshal(body.Data, &inner)); err != nil {
		tb.Fatal(err)
	}
	inner[key] = inner["hash"] // base64, so it fits both
	outer["data"] = encoded(inner)
	return encoded(outer)
}

func TestReplyMadeAtAnotherTimeIsRefused(t *testing.T) {
	p := newInsecurePair(t)
	conn := &Conn{sender: p.sender()}
	now := time.Now()
	tests := []struct {
		name string
		sent time.Time
		made time.Time
		want bool
	}{
		{"at once", now, now, true},
		{"by a clock that is slow", now, now.Add(-59 * time.Second), true},
		{"by a clock that is fast", now, now.Add(59 * time.Second), true},
		{"long after the request", now.Add(-time.Hour), now, true},
		{"before the request", now, now.Add(-2 * time.Minute), false},
		{"in the future", now, now.Add(2 * time.Minute), false},
		{"never", now, time.Unix(0, 0), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := conn.inTime(&exchange{sent: tt.sent}, tt.made); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
	data := answered(t, p, someID, ping)
	if _, err := conn.decode(&exchange{requestID: someID, identity: "n1", sent: now.Add(time.Hour)}, data); err == nil || !strings.Contains(err.Error(), "made at") {
		t.Errorf("got %v, want the time told", err)
	}
}

func BenchmarkOpen(b *testing.B) {
	for _, security := range []int{0, 2} {
		p := securities[security].make(b)
		data := answered(b, p, someID, ping)
		b.Run(securities[security].name+"/ours", func(b *testing.B) {
			for b.Loop() {
				if _, err := open(p.provisioner.RequestProtocol(), data); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(securities[security].name+"/stock", func(b *testing.B) {
			for b.Loop() {
				if _, err := stockOpen(p.provisioner, data); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
