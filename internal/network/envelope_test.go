package network

import (
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/choria-io/go-choria/choria"
	"github.com/choria-io/go-choria/inter"
	"github.com/choria-io/go-choria/protocol"
	"github.com/google/go-cmp/cmp"
)

// awkward is a body with what encoders trip over.
var awkward = []byte(`{"agent":"rpcutil","data":{"a":"<&>\u2028 \"é\" \u0000"},"raw":"<é` + "\u2029" + `"}`)

func letterOf(tb testing.TB, fw *choria.Framework) letter {
	tb.Helper()
	id, err := fw.NewRequestID()
	if err != nil {
		tb.Fatal(err)
	}
	return letter{id: id, agent: "choria_provision", runs: "choria_provision", body: awkward, replyTo: "provisioning.reply.x.y"}
}

// stock is the request as go-choria's clients build it.
func stock(tb testing.TB, fw *choria.Framework, l letter) []byte {
	tb.Helper()
	msg, err := fw.NewMessage(l.body, l.agent, "provisioning", inter.RequestMessageType, nil)
	if err != nil {
		tb.Fatal(err)
	}
	msg.Filter().AddAgentFilter(l.runs)
	if err := msg.SetReplyTo(l.replyTo); err != nil {
		tb.Fatal(err)
	}
	transport, err := msg.Transport(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	data, err := transport.JSON()
	if err != nil {
		tb.Fatal(err)
	}
	return data
}

// fields is everything in a request but what differs from one to the next.
func fields(tb testing.TB, fw *choria.Framework, data []byte) map[string]any {
	tb.Helper()
	transport, err := fw.NewTransportFromJSON(data)
	if err != nil {
		tb.Fatal(err)
	}
	inner, err := transport.Message()
	if err != nil {
		tb.Fatal(err)
	}
	var outer, sealed, request map[string]any
	secure, err := fw.NewSecureRequestFromTransport(transport, true)
	if err != nil {
		tb.Fatal(err)
	}
	if err := errors.Join(json.Unmarshal(data, &outer), json.Unmarshal(inner, &sealed), json.Unmarshal(secure.Message(), &request)); err != nil {
		tb.Fatal(err)
	}
	delete(outer, "data")
	for _, key := range []string{"message", "request"} {
		delete(sealed, key)
	}
	if protocol.IsSecure() {
		delete(sealed, "signature")
	}
	envelope, nested := request["envelope"].(map[string]any)
	if !nested {
		envelope = request
	}
	for _, key := range []string{"time", "id", "requestid"} {
		delete(envelope, key)
	}
	return map[string]any{"transport": outer, "secure": sealed, "request": request}
}

func TestRequestsAreWhatGoChoriaWouldSend(t *testing.T) {
	for _, security := range securities {
		t.Run(security.name, func(t *testing.T) {
			p := security.make(t)
			l := letterOf(t, p.provisioner)
			data, err := p.sender().seal(t.Context(), p.provisioner, l)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(fields(t, p.node, stock(t, p.provisioner, l)), fields(t, p.node, data)); diff != "" {
				t.Errorf("go-choria's request and ours (-stock +ours):\n%s", diff)
			}
			request, err := p.node.NewRequestFromTransportJSON(data, false)
			if err != nil {
				t.Fatalf("the node refuses it: %v", err)
			}
			if request.RequestID() != l.id || string(request.Message()) != string(l.body) || request.CallerID() != p.provisioner.CallerID() {
				t.Errorf("got %s, %s from %s", request.RequestID(), request.Message(), request.CallerID())
			}
		})
	}
}

func TestNodesRefuseAChangedRequest(t *testing.T) {
	for _, security := range securities[1:] {
		t.Run(security.name, func(t *testing.T) {
			p := security.make(t)
			l := letterOf(t, p.provisioner)
			data, err := p.sender().seal(t.Context(), p.provisioner, l)
			if err != nil {
				t.Fatal(err)
			}
			var outer, inner map[string]json.RawMessage
			var body, signature []byte
			if err := errors.Join(json.Unmarshal(data, &outer), json.Unmarshal(outer["data"], &body),
				json.Unmarshal(body, &inner), json.Unmarshal(inner["signature"], &signature)); err != nil {
				t.Fatal(err)
			}
			signature[0] ^= 1
			inner["signature"] = encoded(signature)
			body = encoded(inner)
			outer["data"] = encoded(body)
			if _, err := p.node.NewRequestFromTransportJSON(encoded(outer), false); err == nil {
				t.Error("the node takes a request whose signature was changed")
			}
		})
	}
}

func TestRotatedTokenSignsTheNextRequest(t *testing.T) {
	p := newIssuerPair(t)
	who := p.sender()
	old, err := os.ReadFile(filepath.Join(p.dir, "own.jwt"))
	if err != nil {
		t.Fatal(err)
	}
	seed, err := os.ReadFile(filepath.Join(p.dir, "issuer.seed"))
	if err != nil {
		t.Fatal(err)
	}
	newClientToken(t, p.dir, ed25519.NewKeyFromSeed(seed))

	data, err := who.seal(t.Context(), p.provisioner, letterOf(t, p.provisioner))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.node.NewRequestFromTransportJSON(data, false); err != nil {
		t.Errorf("the node refuses it: %v", err)
	}
	transport, err := p.node.NewTransportFromJSON(data)
	if err != nil {
		t.Fatal(err)
	}
	if sealed, err := transport.Message(); err != nil || strings.Contains(string(sealed), string(old)) {
		t.Errorf("the old token went along: %v", err)
	}
}

func TestWhatNoNodeTakesIsRefusedBeforeConnecting(t *testing.T) {
	cfg := client(t, "provisioner.mcollective", "nats://127.0.0.1:1")
	cfg.TTL = 10 // v1 wants 30
	if _, err := Dial(t.Context(), cfg, "test", 1); !errors.Is(err, ErrSecurity) || !strings.Contains(err.Error(), "ttl") {
		t.Errorf("got %v, want %v and the ttl named", err, ErrSecurity)
	}
}

func TestMissingKeyIsTold(t *testing.T) {
	p := newIssuerPair(t)
	who := p.sender()
	if err := os.Remove(filepath.Join(p.dir, "own.seed")); err != nil {
		t.Fatal(err)
	}
	if _, err := who.seal(t.Context(), p.provisioner, letterOf(t, p.provisioner)); err == nil || !strings.Contains(err.Error(), "own.seed") {
		t.Errorf("got %v, want the missing file named", err)
	}
}

func BenchmarkSeal(b *testing.B) {
	for _, security := range securities {
		b.Run(security.name+"/ours", func(b *testing.B) {
			p := security.make(b)
			who, l := p.sender(), letterOf(b, p.provisioner)
			for b.Loop() {
				if _, err := who.seal(b.Context(), p.provisioner, l); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(security.name+"/stock", func(b *testing.B) {
			p := security.make(b)
			l := letterOf(b, p.provisioner)
			for b.Loop() {
				stock(b, p.provisioner, l)
			}
		})
	}
}
