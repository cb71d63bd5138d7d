package network

import (
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// FuzzSealV1 and FuzzSealV2 hold that a node reads in a request what was put into
// it: the body may come from a helper, the subject for replies from a
// configuration.
func FuzzSealV1(f *testing.F) { fuzzSeal(f, newPKIPair(f)) }

// FuzzSealV2 is described at FuzzSealV1.
func FuzzSealV2(f *testing.F) { fuzzSeal(f, newIssuerPair(f)) }

func fuzzSeal(f *testing.F, p pair) {
	f.Add(string(awkward), "provisioning.reply.x.y")
	f.Add("", "")
	f.Add("\x00\u2028<&>", "*.>")
	f.Fuzz(func(t *testing.T, body, replyTo string) {
		if body == "" || !utf8.ValidString(body) || !utf8.ValidString(replyTo) {
			return // bodies are JSON that was made here, and nodes refuse empty ones
		}
		l := letterOf(t, p.provisioner)
		l.body, l.replyTo = []byte(body), replyTo
		data, err := p.sender().seal(t.Context(), p.provisioner, l)
		if err != nil {
			t.Fatal(err)
		}
		transport, err := p.node.NewTransportFromJSON(data)
		if err != nil {
			t.Fatal(err)
		}
		request, err := p.node.NewRequestFromTransportJSON(data, false)
		if err != nil {
			t.Fatal(err)
		}
		got := []string{request.RequestID(), request.Agent(), string(request.Message()), transport.ReplyTo()}
		if diff := cmp.Diff([]string{l.id, l.agent, body, replyTo}, got); diff != "" {
			t.Errorf("sealed and read (-want +got):\n%s", diff)
		}
	})
}
