package config

import (
	"crypto"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"testing"
)

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
