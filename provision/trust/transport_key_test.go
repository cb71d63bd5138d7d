package trust

import (
	"crypto/rsa"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"strings"
	"testing"

	"github.com/choria-io/go-choria/choria"
)

func rsaPEM(key *rsa.PrivateKey) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}))
}

func pkcs8PEM(t *testing.T, key any) string {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

// The node's side is what go-choria's agent does with the configure request.
func TestNodeReadsItsPrivateKey(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"PKCS #1", "PKCS #8"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := rsaPEM(rsaKey())
			if name == "PKCS #8" {
				text = pkcs8PEM(t, rsaKey())
			}
			private, public, err := choria.ECDHKeyPair()
			if err != nil {
				t.Fatal(err)
			}
			encrypted, ours, err := EncryptKey(text, hex.EncodeToString(public))
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(encrypted, strings.Split(text, "\n")[2]) {
				t.Fatalf("the key travels in the clear")
			}
			their, err := hex.DecodeString(ours)
			if err != nil {
				t.Fatal(err)
			}
			secret, err := choria.ECDHSharedSecret(private, their)
			if err != nil {
				t.Fatal(err)
			}
			block, _ := pem.Decode([]byte(encrypted))
			if block == nil || block.Type != "RSA PRIVATE KEY" || !strings.HasPrefix(block.Headers["DEK-Info"], "AES-256-CBC") {
				t.Fatalf("got %+v, want an RSA PRIVATE KEY under AES-256", block)
			}
			//lint:ignore SA1019 what the node does
			der, err := x509.DecryptPEMBlock(block, secret)
			if err != nil {
				t.Fatal(err)
			}
			got, err := x509.ParsePKCS1PrivateKey(der)
			if err != nil || !got.Equal(rsaKey()) {
				t.Errorf("got error %v and another key, want the one that was sent", err)
			}
		})
	}
}

func TestKeysThatCannotTravelAreRefused(t *testing.T) {
	t.Parallel()
	key := rsaPEM(rsaKey())
	locked, _, err := EncryptKey(key, strings.Repeat("09", 32))
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct{ name, key, ecdh, says string }{
		{"no ECDH key", key, "", "ECDH public key has 0 characters"},
		{"short ECDH key", key, "abcd", "ECDH public key has 4 characters"},
		{"ECDH key that is no hex", key, strings.Repeat("zz", 32), "ECDH public key is not hex"},
		{"ECDH key of no secret", key, strings.Repeat("00", 32), "not usable"},
		{"no PEM", "hello", strings.Repeat("09", 32), "the helper's key: it is no PEM"},
		{"a certificate request", csrPEM([]byte("x")), strings.Repeat("09", 32), "holds no private key"},
		{"an encrypted key", locked, strings.Repeat("09", 32), "it is encrypted"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			encrypted, ours, err := EncryptKey(tt.key, tt.ecdh)
			if encrypted != "" || ours != "" || err == nil {
				t.Errorf("got %q, %q and error %v, want an error", encrypted, ours, err)
			}
			wantCause(t, err, ErrKeyInTransit, tt.says)
		})
	}
}
