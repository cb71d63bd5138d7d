package helper

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/choria-io/tokens"

	"choria-provision/config"
	"choria-provision/provision/trust"
)

// rsaKey is generated once: it takes long, and tests only read it.
var rsaKey = sync.OnceValue(func() *rsa.PrivateKey { return makeRSA() })

func makeRSA() *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return key
}

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

func newKey(t testing.TB) (ed25519.PublicKey, ed25519.PrivateKey) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return public, private
}

// requestFor returns a certificate request in PEM.
func requestFor(t *testing.T, key *rsa.PrivateKey, identity string) string {
	t.Helper()
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: identity}}, key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: trust.CSRBlock, Bytes: der}))
}

func writeFile(t testing.TB, content string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// organization is an issuer and a provisioner that it made a chain issuer.
type organization struct {
	issuer, node ed25519.PublicKey
	config       *config.Config
}

func newOrganization(t *testing.T) *organization {
	t.Helper()
	o := &organization{config: config.Default()}
	issuer, issuerKey := newKey(t)
	provisioner, signing := newKey(t)
	o.issuer = issuer
	o.node, _ = newKey(t)
	claims, err := tokens.NewClientIDClaims("choria=provisioner", nil, "choria", nil, "", "", 10*365*24*time.Hour, nil, provisioner)
	if err != nil {
		t.Fatal(err)
	}
	if err := claims.AddOrgIssuerData(issuerKey); err != nil {
		t.Fatal(err)
	}
	token, err := tokens.SignToken(claims, issuerKey)
	if err != nil {
		t.Fatal(err)
	}
	o.config.JWTSigningKey = writeFile(t, hex.EncodeToString(signing.Seed()))
	o.config.JWTSigningToken = writeFile(t, token)
	return o
}

func (o *organization) settings() map[string]string {
	return with(choriaSettings(), trust.IssuerKey("choria"), hex.EncodeToString(o.issuer))
}

// wantCause checks that err is nil when text is empty, and otherwise unwraps
// to cause and says text.
func wantCause(t *testing.T, err, cause error, text string) {
	t.Helper()
	switch {
	case text == "" && err != nil:
		t.Errorf("got error %v, want none", err)
	case text == "":
	case !errors.Is(err, cause):
		t.Errorf("got error %v, want cause %v", err, cause)
	case !strings.Contains(err.Error(), text):
		t.Errorf("got error %q, want one saying %q", err, text)
	}
}

// anyIdentity accepts what looks like a host name.
func anyIdentity(name string) bool { return name != "" && !strings.ContainsAny(name, " /*>") }

// noUpgrade stands for a site whose nodes run the wanted release.
func noUpgrade(string, string, *config.Config) (bool, error) { return false, nil }
