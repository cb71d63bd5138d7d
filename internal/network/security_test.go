package network

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/choria-io/go-choria/choria"
	choriaconfig "github.com/choria-io/go-choria/config"
	"github.com/choria-io/go-choria/protocol"
	"github.com/choria-io/tokens"
	"github.com/sirupsen/logrus"
)

// pair is a provisioner and a node that can check what it signs.
type pair struct {
	dir               string
	provisioner, node *choria.Framework
}

func (p pair) sender() sender {
	return sender{
		identity: p.provisioner.Configuration().Identity, caller: p.provisioner.CallerID(),
		collective: "provisioning", ttl: 60, version: p.provisioner.RequestProtocol(),
	}
}

// securities are the ways to sign that a provisioner can be configured for.
var securities = []struct {
	name string
	make func(testing.TB) pair
}{
	{"insecure", newInsecurePair},
	{"pki", newPKIPair},
	{"issuer", newIssuerPair},
}

func newInsecurePair(tb testing.TB) pair {
	return pair{"", framework(tb, client(tb, "provisioner.mcollective", "")), framework(tb, client(tb, "n1", ""))}
}

func newPKIPair(tb testing.TB) pair {
	secure(tb)
	dir := tb.TempDir()
	caKey, ca := certificate(tb, "CA", nil, nil)
	key, cert := certificate(tb, "provisioner.mcollective", ca, caKey)
	save(tb, dir, "ca.pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.Raw}))
	save(tb, dir, "own.pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw}))
	save(tb, dir, "own.key", pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}))
	conf := fmt.Sprintf("plugin.security.provider = file\nplugin.security.file.ca = %[1]s/ca.pem\n"+
		"plugin.security.file.certificate = %[1]s/own.pem\nplugin.security.file.key = %[1]s/own.key\n", dir)
	return pair{dir, framework(tb, configured(tb, "provisioner.mcollective", conf, false)), framework(tb, configured(tb, "n1", conf, true))}
}

func newIssuerPair(tb testing.TB) pair {
	secure(tb)
	dir := tb.TempDir()
	issuer, root, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	newClientToken(tb, dir, root)
	conf := fmt.Sprintf("plugin.security.provider = choria\nplugin.security.issuer.names = choria\n"+
		"plugin.security.issuer.choria.public = %[2]x\n"+
		"plugin.security.choria.token_file = %[1]s/own.jwt\nplugin.security.choria.seed_file = %[1]s/own.seed\n", dir, []byte(issuer))
	save(tb, dir, "issuer.seed", root.Seed())
	return pair{dir, framework(tb, configured(tb, "provisioner", conf, false)), framework(tb, configured(tb, "n1", conf, true))}
}

// newClientToken gives the provisioner in dir a new key and token.
func newClientToken(tb testing.TB, dir string, root ed25519.PrivateKey) {
	tb.Helper()
	public, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	claims, err := tokens.NewClientIDClaims("choria=provisioner", nil, "choria", nil, "", "test", time.Hour,
		&tokens.ClientPermissions{FleetManagement: true}, public)
	if err != nil {
		tb.Fatal(err)
	}
	token, err := tokens.SignToken(claims, root)
	if err != nil {
		tb.Fatal(err)
	}
	save(tb, dir, "own.jwt", []byte(token))
	save(tb, dir, "own.seed", []byte(hex.EncodeToString(key.Seed())))
}

// secure turns the protocol's security on until the test ends.
func secure(tb testing.TB) {
	before := protocol.Secure
	protocol.Secure = "true"
	tb.Cleanup(func() { protocol.Secure = before })
	if os.Getenv("USER") == "" {
		if err := os.Setenv("USER", "root"); err != nil {
			tb.Fatal(err)
		}
	}
}

func configured(tb testing.TB, identity, text string, server bool) *choriaconfig.Config {
	tb.Helper()
	file := filepath.Join(tb.TempDir(), "choria.conf")
	save(tb, filepath.Dir(file), "choria.conf", []byte("identity = "+identity+"\n"+text))
	cfg, err := choriaconfig.NewSystemConfig(file, false)
	if err != nil {
		tb.Fatal(err)
	}
	cfg.OverrideCertname = identity
	cfg.InitiatedByServer = server
	cfg.Collectives, cfg.MainCollective = []string{"provisioning"}, "provisioning"
	cfg.CustomLogger = logrus.New()
	cfg.CustomLogger.SetOutput(io.Discard)
	return cfg
}

func framework(tb testing.TB, cfg *choriaconfig.Config) *choria.Framework {
	tb.Helper()
	fw, err := choria.NewWithConfig(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	return fw
}

func save(tb testing.TB, dir, name string, text []byte) {
	tb.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
		tb.Fatal(err)
	}
}

// certificate is signed by ca, or by itself when there is none.
func certificate(tb testing.TB, name string, ca *x509.Certificate, caKey *rsa.PrivateKey) (*rsa.PrivateKey, *x509.Certificate) {
	tb.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		tb.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		DNSNames: []string{strings.ToLower(name)}, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		BasicConstraintsValid: true, IsCA: ca == nil,
	}
	if ca == nil {
		ca, caKey, template.ExtKeyUsage = template, key, nil
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca, &key.PublicKey, caKey)
	if err != nil {
		tb.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		tb.Fatal(err)
	}
	return key, cert
}
