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

// FuzzOpen holds that no reply brings us down, whatever is at which depth of
// it, and that what we take for a reply reads as go-choria reads it.
func FuzzOpen(f *testing.F) {
	insecure := newInsecurePair(f)
	one := answered(f, insecure, someID, awkward)
	issuer := newIssuerPair(f)
	two := answered(f, issuer, someID, awkward)
	for _, data := range [][]byte{one, two, []byte("null"), []byte("[]"), []byte(`{"envelope":null}`),
		[]byte(`{"protocol":"choria:reply:1","message":"{}","envelope":{"requestid":"x","senderid":"n1","time":1}}`),
		[]byte(`{"protocol":"io.choria.protocol.v2.reply","message":"e30=","request":"x","sender":"n1","time":1}`)} {
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		hash := hashOf(data)
		secure1 := string(encoded(map[string]any{"protocol": protocol.SecureReplyV1, "message": string(data), "hash": hash}))
		secure2 := string(encoded(map[string]any{"protocol": protocol.SecureReplyV2, "reply": data, "hash": hash}))
		for _, data := range [][]byte{data, wrapped(protocol.TransportV1, string(data)), wrapped(protocol.TransportV1, secure1)} {
			sameReading(t, insecure, data)
		}
		for _, data := range [][]byte{data, wrapped(protocol.TransportV2, string(data)), wrapped(protocol.TransportV2, secure2)} {
			sameReading(t, issuer, data)
		}
	})
}

func sameReading(t *testing.T, p pair, data []byte) {
	t.Helper()
	got, err := open(p.provisioner.RequestProtocol(), data)
	if err != nil {
		return
	}
	want, err := stockOpen(p.provisioner, data)
	if err == nil && !cmp.Equal(want, got, cmp.AllowUnexported(opened{})) {
		t.Errorf("a reply (-stock +ours):\n%s", cmp.Diff(want, got, cmp.AllowUnexported(opened{})))
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
