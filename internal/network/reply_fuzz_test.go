package network

import (
	"testing"

	"github.com/choria-io/go-choria/protocol"
	"github.com/google/go-cmp/cmp"
)

// FuzzOpen holds that no reply brings us down, whatever is at which depth of
// it, that what we take for a reply reads as go-choria reads it, and that what
// go-choria refuses (or panics on) we refuse.
func FuzzOpen(f *testing.F) {
	insecure := newInsecurePair(f)
	one := answered(f, insecure, someID, awkward)
	issuer := newIssuerPair(f)
	two := answered(f, issuer, someID, awkward)
	for _, data := range [][]byte{one, two, []byte("null"), []byte("[]"), []byte(`{"envelope":null}`), []byte(`{"headers":null}`),
		[]byte(`{"protocol":"choria:reply:1","envelope":{"agent":1}}`), []byte(`{"protocol":"io.choria.protocol.v2.reply","agent":1}`),
		[]byte(`{"protocol":"choria:reply:1","message":"{}","envelope":{"requestid":"x","senderid":"n1","time":1}}`),
		[]byte(`{"protocol":"io.choria.protocol.v2.reply","message":"e30=","request":"x","sender":"n1","time":1}`)} {
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, data := range [][]byte{data, wrapped(protocol.TransportV1, string(data)), inside(protocol.TransportV1, string(data))} {
			sameReading(t, insecure, data)
		}
		for _, data := range [][]byte{data, wrapped(protocol.TransportV2, string(data)), inside(protocol.TransportV2, string(data))} {
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
	if err != nil {
		t.Fatalf("got %+v of %q, which go-choria refuses: %v", got, data, err)
	}
	if !cmp.Equal(want, got, cmp.AllowUnexported(opened{})) {
		t.Errorf("a reply (-stock +ours):\n%s", cmp.Diff(want, got, cmp.AllowUnexported(opened{})))
	}
}
