package trust

import (
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"strings"
	"testing"

	wire "github.com/choria-io/go-choria/providers/agent/mcorpc/golang/provision"

	"choria-provision/config"
)

// FuzzVerifyKeyProof holds that a proof counts for the nonce it was made for and
// for no other one.
func FuzzVerifyKeyProof(f *testing.F) {
	good := keyProof(f, "nonce")
	f.Add(good.PublicKey, good.Signature, "nonce")
	f.Add("", "", "")
	f.Add(strings.Repeat("00", 32), strings.Repeat("00", 64), "nonce")
	f.Add("01"+strings.Repeat("00", 31), "01"+strings.Repeat("00", 63), "nonce")
	f.Fuzz(func(t *testing.T, key, signature, nonce string) {
		reply := wire.ED25519Reply{PublicKey: key, Signature: signature}
		got, err := VerifyKeyProof(reply, nonce)
		if err != nil && !errors.Is(err, ErrKeyProof) {
			t.Errorf("got error %v, want one that unwraps to ErrKeyProof", err)
		}
		if (err == nil) != (len(got) == ed25519.PublicKeySize) {
			t.Errorf("got key %x and error %v, want one of them", got, err)
		}
		if _, other := VerifyKeyProof(reply, nonce+"x"); err == nil && other == nil {
			t.Errorf("key %s and signature %s prove two nonces", key, signature)
		}
	})
}

// FuzzVerifyCSR holds that a request which passes asks for the node's name
// alone, with a key of the least strength, for no authority and with no name that
// is denied.
func FuzzVerifyCSR(f *testing.F) {
	good := csrReply(f, rsaKey(), named("n1"))
	f.Add(good.CSR, good.PublicKey)
	f.Add("", "")
	f.Add(good.PublicKey, good.CSR)
	f.Add(csrPEM([]byte{0x30, 0x80}), good.PublicKey)
	rules := CSRRules{Identity: "n1", Deny: config.Default().CertDenyList}
	f.Fuzz(func(t *testing.T, text, key string) {
		got, err := VerifyCSR(wire.CSRReply{CSR: text, PublicKey: key}, rules)
		if err != nil {
			if got != nil || !errors.Is(err, ErrCSR) {
				t.Errorf("got a request %v and error %v, want one that unwraps to ErrCSR", got != nil, err)
			}
			return
		}
		for _, name := range append(alternativeNames(got), got.Subject.CommonName) {
			if !strings.EqualFold(strings.TrimSuffix(name, "."), "n1") {
				t.Errorf("got a request for %q, want n1", name)
			}
		}
		if key, ok := got.PublicKey.(*rsa.PublicKey); ok && key.N.BitLen() < 2048 {
			t.Errorf("got an RSA key of %d bits", key.N.BitLen())
		}
		again, err := VerifyCSR(wire.CSRReply{CSR: csrPEM(got.Raw), PublicKey: key}, rules)
		if err != nil || string(again.Raw) != string(got.Raw) {
			t.Errorf("the request that passed does not pass again: %v", err)
		}
	})
}

// FuzzParsePrivateKey holds that a key which is read can be written and read
// again as the same one, and that errors show nothing of the text.
func FuzzParsePrivateKey(f *testing.F) {
	_, ed := newKey(f)
	der, err := x509.MarshalPKCS8PrivateKey(ed)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})))
	f.Add(string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(rsaKey())})))
	f.Add("-----BEGIN PRIVATE KEY-----\nDEK-Info: x\n\nAAAA\n-----END PRIVATE KEY-----\n")
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := ParsePrivateKey(text)
		if err != nil {
			return
		}
		der, err := x509.MarshalPKCS8PrivateKey(got)
		if err != nil {
			t.Fatalf("read a key that cannot be written: %v", err)
		}
		again, err := ParsePrivateKey(string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})))
		if err != nil || !SameKey(got.Public(), again.Public()) {
			t.Errorf("the key that was read does not come back (%v)", err)
		}
	})
}
