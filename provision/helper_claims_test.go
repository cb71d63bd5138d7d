package provision_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"

	"choria-provision/config"
	"choria-provision/provision"
)

// A site's numbers must not be altered between its token and its helper.
func TestVerifiedNumbersReachTheHelperUnchanged(t *testing.T) {
	t.Parallel()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	encode := base64.RawURLEncoding.EncodeToString
	text := encode([]byte(`{"alg":"EdDSA","typ":"JWT"}`)) + "." +
		encode([]byte(`{"purpose":"choria_provisioning","extensions":{"serial":9007199254740993,"release":1.10}}`))
	text += "." + encode(ed25519.Sign(private, []byte(text)))
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, func(c *config.Config) {
			c.Features.JWT, c.JWTVerifyCert = true, hex.EncodeToString(public)
		})
		b.fleet.Site.JWT = text
		var got []byte
		b.Helper = helperFunc(func(ctx context.Context, in provision.HelperInput) (provision.Answer, error) {
			got, _ = json.Marshal(in)
			return obliging(ctx, in)
		})
		sum := b.run(t.Context(), "n1.example.net")
		if result := resultOf(t, sum, "n1.example.net"); result.Err != nil {
			t.Fatal(result.Err)
		}
		if want := `"extensions":{"serial":9007199254740993,"release":1.10}`; !strings.Contains(string(got), want) {
			t.Errorf("got %s, want %s in it", got, want)
		}
	})
}
