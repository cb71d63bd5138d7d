package helper

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"testing"

	"github.com/choria-io/go-choria/providers/agent/mcorpc/golang/rpcutil"
	"github.com/google/go-cmp/cmp"

	wire "github.com/choria-io/go-choria/providers/agent/mcorpc/golang/provision"

	"choria-provision/config"
	"choria-provision/provision/trust"
)

// says is a helper that always answers the same.
type says Answer

func (s says) Answer(context.Context, Input) (Answer, error) { return Answer(s), nil }

func TestSampleIsANodeOfItsFeatures(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		features config.Features
		keys     []string // those that are not null
	}{
		{"nothing on", config.Features{}, []string{"identity", "inventory"}},
		{"pki", config.Features{JWT: true, PKI: true}, []string{"csr", "identity", "inventory", "jwt"}},
		{"issuer", config.Features{JWT: true, ED25519: true}, []string{"ed25519_pubkey", "identity", "inventory", "jwt"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := config.Default()
			c.Features = tt.features
			in, err := SampleInput(`n"1`, c)
			if err != nil {
				t.Fatal(err)
			}
			text, err := json.Marshal(in)
			if err != nil {
				t.Fatal(err)
			}
			var members map[string]any
			if err := json.Unmarshal(text, &members); err != nil {
				t.Fatal(err)
			}
			maps.DeleteFunc(members, func(_ string, v any) bool { return v == nil })
			if diff := cmp.Diff(tt.keys, slices.Sorted(maps.Keys(members))); diff != "" {
				t.Errorf("keys (-want +got):\n%s", diff)
			}
			var inventory rpcutil.InventoryReply
			if err := json.Unmarshal([]byte(in.Inventory), &inventory); err != nil || inventory.Version == "" {
				t.Errorf("got inventory %q and error %v, want one with a version", in.Inventory, err)
			}
			if in.CSR != nil {
				if _, err := trust.VerifyCSR(wire.CSRReply{CSR: in.CSR.CSR, PublicKey: in.CSR.PublicKey}, trust.CSRRules{Identity: `n"1`}); err != nil {
					t.Errorf("its request: %v", err)
				}
			}
		})
	}
}

func TestRehearsalDoesWhatARunWouldDo(t *testing.T) {
	t.Parallel()
	o := newOrganization(t)
	o.config.Features = config.Features{JWT: true, ED25519: true}
	pki := config.Default()
	pki.Features = config.Features{JWT: true, PKI: true}
	good := with(o.settings(), "plugin.security.choria.token_file", "/etc/choria/server.jwt", "plugin.security.choria.seed_file", "/etc/choria/server.seed", "plugin.x.password", "hunter2")
	ca := newAuthority(t, "ca")
	tests := []struct {
		name    string
		config  *config.Config
		answer  Answer
		cause   error
		message string
	}{
		{name: "good", config: o.config, answer: Answer{Configuration: good}},
		{name: "deferred", config: o.config, answer: Answer{Defer: true}},
		{name: "answer of another node", config: o.config, answer: Answer{Configuration: with(good, "identity", "n2")}, cause: ErrAnswer, message: `issued to "n1"`},
		{name: "token nobody accepts", config: o.config, answer: Answer{Configuration: with(good, trust.IssuerKey("choria"), otherHex)}, cause: trust.ErrSigning, message: "would not accept it"},
		{name: "certificate of another node", config: pki, answer: Answer{Configuration: fileSettings(), CA: ca.pem(), Certificate: ca.sign(t, leaf{name: "n1", key: rsaKey().Public()})}, cause: ErrAnswer, message: "node's CSR"},
		{name: "key from the helper", config: pki, answer: Answer{Configuration: fileSettings(), CA: ca.pem(), Certificate: ca.sign(t, leaf{name: "n1", key: rsaKey().Public()}), Key: rsaPEM(rsaKey())}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			in, err := SampleInput("n1", tt.config)
			if err != nil {
				t.Fatal(err)
			}
			rehearsal, err := Rehearse(t.Context(), says(tt.answer), in, RehearseOptions{Config: tt.config, Valid: anyIdentity, Upgrading: noUpgrade})
			if (err != nil) != (tt.message != "") {
				t.Errorf("got error %v, want %q", err, tt.message)
			}
			wantCause(t, err, tt.cause, tt.message)
			if got := rehearsal.Configuration["plugin.x.password"]; got != "" && got != config.Redacted {
				t.Errorf("got the password %q, want it masked", got)
			}
		})
	}
}

func TestRehearsalRefusesInputThatIsNone(t *testing.T) {
	t.Parallel()
	c := plainConfig()
	for _, in := range []Input{{CSR: &InputCSR{CSR: "x"}}, {ED25519: &InputED25519{PublicKey: hex.EncodeToString([]byte("short"))}}} {
		if _, err := Rehearse(t.Context(), says(Answer{Configuration: fileSettings()}), in, RehearseOptions{Config: c, Valid: anyIdentity, Upgrading: noUpgrade}); err == nil {
			t.Errorf("%+v: got no error, want one", in)
		}
	}
}
