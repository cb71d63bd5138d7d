package network

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// FuzzDecode holds that what a node says inside a good reply is taken only as a
// whole RPC reply, from the node that was asked, and loses nothing.
func FuzzDecode(f *testing.F) {
	p := newIssuerPair(f)
	conn := &Conn{sender: p.sender()}
	for _, text := range []string{`{"statuscode":0,"statusmsg":"OK","data":{"a":1}}`, `{"statuscode":"0"}`, `{"data":null}`, "null", "[]", "{", ""} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		raw := answered(t, p, someID, body)
		x := &exchange{requestID: someID, identity: "n1", sent: time.Now()}
		got, err := conn.decode(x, raw)
		if err != nil {
			return
		}
		if got.Sender != "n1" || !json.Valid(body) {
			t.Errorf("took %q as an RPC reply of %q", body, got.Sender)
		}
		text, err := json.Marshal(got.RPCReply)
		if err != nil {
			t.Fatal(err)
		}
		again, err := conn.decode(x, answered(t, p, someID, text))
		if err != nil || again.Statuscode != got.Statuscode || !cmp.Equal(again.Statusmsg, got.Statusmsg) {
			t.Errorf("got %+v, and %+v when written again (%v)", got, again, err)
		}
		if _, err := conn.decode(&exchange{requestID: someID, identity: "N1", sent: x.sent}, raw); err == nil {
			t.Error("a reply of n1 counts as one of N1")
		}
	})
}
