package provision

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	wire "github.com/choria-io/go-choria/providers/agent/mcorpc/golang/provision"
)

// FuzzReplyData holds that what a node answers to an action is read whole or
// refused as nonsense, and means the same when it is written again.
func FuzzReplyData(f *testing.F) {
	for _, text := range []string{
		`{"jwt":"a.b.c","ecdh_public":"00"}`, `{"public_key":"00","directory":"/etc","signature":"00"}`,
		`{"csr":"x","public_key":"y","ssldir":"/etc"}`, `{"message":"x"}`, `{"jwt":1}`, "null", "[]", "", "{",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		sameAgain[wire.JWTReply](t, data)
		sameAgain[wire.ED25519Reply](t, data)
		sameAgain[wire.CSRReply](t, data)
		sameAgain[wire.Reply](t, data)
		sameAgain[facts](t, data)
	})
}

func sameAgain[Out any](t *testing.T, data []byte) {
	t.Helper()
	got, err := decode[Out](data)
	if err != nil {
		if !errors.Is(err, ErrNonsense) {
			t.Errorf("got error %v, want one that unwraps to ErrNonsense", err)
		}
		return
	}
	text, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	again, err := decode[Out](text)
	if diff := cmp.Diff(got, again, cmp.AllowUnexported(facts{})); err != nil || diff != "" {
		t.Errorf("error %v; written and read again (-first +second):\n%s", err, diff)
	}
}
