package crash

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"maps"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"choria-provision/config"
	"choria-provision/internal/fake"
	"choria-provision/provision/helper"
)

// enrollments are the ways in which a node gets its credentials.
var enrollments = []string{"plain", "jwt", "pki", "issuer", "key in transit", "upgrade"}

func enroll(enrollment string, c *config.Config) {
	f := &c.Features
	f.JWT = enrollment != "plain" && enrollment != "upgrade"
	f.PKI = enrollment == "pki"
	f.ED25519 = enrollment == "issuer"
	f.Upgrades = enrollment == "upgrade"
	c.UpgradesRepository = "http://127.0.0.1/releases"
}

// credentials are PEM texts.
type credentials struct{ Certificate, Key string }

// materials are what takes time to make, once for many stories.
type materials struct {
	base     *fake.Site
	seed     string // file
	ca, node credentials
}

func newMaterials(t *testing.T) *materials {
	t.Helper()
	site, err := fake.NewSite()
	if err != nil {
		t.Fatal(err)
	}
	m := &materials{base: site, seed: filepath.Join(t.TempDir(), "seed")}
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err == nil {
		err = os.WriteFile(m.seed, []byte(hex.EncodeToString(private.Seed())), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := certificate("the site's CA")
	template.IsCA, template.BasicConstraintsValid = true, true
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	m.ca = credentials{encode("CERTIFICATE", der), encode("EC PRIVATE KEY", encoded)}
	nodeKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	m.node.Key = encode("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(nodeKey))
	return m
}

func (m *materials) site(enrollment string) *fake.Site {
	site := *m.base
	site.Upgradable = enrollment == "upgrade"
	return &site
}

func (m *materials) order(dir, enrollment string) order {
	return order{Dir: dir, Enrollment: enrollment, Token: m.base.Token, Signer: m.base.Signer, Seed: m.seed, CA: m.ca, Node: m.node}
}

func certificate(name string) *x509.Certificate {
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: now.Add(-time.Minute), NotAfter: now.Add(time.Hour),
	}
}

func encode(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

func decode(text string) ([]byte, error) {
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return nil, errors.New("no PEM")
	}
	return block.Bytes, nil
}

// Answer implements helper.Helper: the site's helper, in the run's process.
func (o order) Answer(_ context.Context, in helper.Input) (a helper.Answer, err error) {
	a.Configuration = map[string]string{
		"identity": in.Identity, "plugin.choria.server.provision": "false", "rpcauthorization": "false",
		"plugin.security.provider": "file", "plugin.choria.middleware_hosts": "nats://127.0.0.1:4222",
	}
	switch o.Enrollment {
	case "pki":
		a.CA = o.CA.Certificate
		a.Certificate, err = o.sign(in)
	case "key in transit":
		a.CA, a.Key, a.SSLDir = o.CA.Certificate, o.Node.Key, "/etc/choria/ssl"
		a.Certificate, err = o.certify(in)
	case "issuer":
		maps.Copy(a.Configuration, map[string]string{
			"plugin.security.provider":               "choria",
			"plugin.security.choria.token_file":      filepath.Join(in.ED25519.Directory, "server.jwt"),
			"plugin.security.choria.seed_file":       filepath.Join(in.ED25519.Directory, "server.seed"),
			"plugin.security.choria.trusted_signers": strings.Repeat("ab", ed25519.PublicKeySize),
		})
	case "upgrade":
		a.Upgrade = newRelease
	}
	return a, err
}

func (o order) sign(in helper.Input) (string, error) {
	der, err := decode(in.CSR.CSR)
	if err != nil {
		return "", err
	}
	request, err := x509.ParseCertificateRequest(der)
	if err != nil {
		return "", err
	}
	return o.issue(in.Identity, request.PublicKey)
}

func (o order) certify(in helper.Input) (string, error) {
	der, err := decode(o.Node.Key)
	if err != nil {
		return "", err
	}
	key, err := x509.ParsePKCS1PrivateKey(der)
	if err != nil {
		return "", err
	}
	return o.issue(in.Identity, key.Public())
}

func (o order) issue(name string, public any) (string, error) {
	caDER, err := decode(o.CA.Certificate)
	if err != nil {
		return "", err
	}
	ca, err := x509.ParseCertificate(caDER)
	if err != nil {
		return "", err
	}
	keyDER, err := decode(o.CA.Key)
	if err != nil {
		return "", err
	}
	key, err := x509.ParseECPrivateKey(keyDER)
	if err != nil {
		return "", err
	}
	der, err := x509.CreateCertificate(rand.Reader, certificate(name), ca, public, key)
	return encode("CERTIFICATE", der), err
}
