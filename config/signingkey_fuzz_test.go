package config

import (
	"crypto"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"strings"
	"testing"
)

// FuzzSigningKey holds that a key file is read as the key that stands in it: a
// seed comes back digit by digit, an RSA key is the same one when written again.
func FuzzSigningKey(f *testing.F) {
	for _, text := range []string{strings.Repeat("0a", 32), strings.Repeat("0A", 32) + "\n", strings.Repeat("0a", 31), "-----BEGIN RSA PRIVATE KEY-----\nAAAA\n-----END RSA PRIVATE KEY-----\n", ""} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		switch key := signingKey(text).(type) {
		case nil:
		case ed25519.PrivateKey:
			if got := hex.EncodeToString(key.Seed()); !strings.EqualFold(got, strings.TrimSpace(string(text))) {
				t.Errorf("read seed %s of %q", got, text)
			}
		case *rsa.PrivateKey:
			again := signingKey(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}))
			if !key.Equal(again) {
				t.Error("the RSA key that was read does not come back")
			}
		default:
			t.Errorf("read a key of type %T", key)
		}
	})
}

// FuzzPrivateKey holds that a client key that is read is the same one when it is
// written again, and that what is wrong with a file is told with what to do.
func FuzzPrivateKey(f *testing.F) {
	key := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	f.Add(der)
	f.Add([]byte("-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		got, problem := parseKey("key", "/key.pem", text)
		if (got == nil) == (problem == nil) {
			t.Fatalf("got key %v and problem %v, want one of them", got != nil, problem)
		}
		if problem != nil {
			return
		}
		der, err := x509.MarshalPKCS8PrivateKey(got)
		if err != nil {
			t.Fatal(err)
		}
		again, problem := parseKey("key", "/key.pem", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
		public, ok := got.Public().(interface{ Equal(crypto.PublicKey) bool })
		if problem != nil || ok && !public.Equal(again.Public()) {
			t.Errorf("the key that was read does not come back (%v)", problem)
		}
	})
}
