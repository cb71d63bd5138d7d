package helper

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"sync"
	"testing"
	"time"

	"choria-provision/provision/trust"
)

// authority is a certificate authority made for one test.
type authority struct {
	key  *rsa.PrivateKey
	cert *x509.Certificate
}

var caKey = sync.OnceValue(makeRSA)

func newAuthority(t *testing.T, name string) authority {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-48 * time.Hour), NotAfter: time.Now().Add(48 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, caKey().Public(), caKey())
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return authority{caKey(), cert}
}

func (a authority) pem() string { return certPEM(a.cert.Raw) }

func certPEM(der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// leaf describes a certificate; its zero times are an hour around now.
type leaf struct {
	name        string
	dns         []string
	from, until time.Duration
	key         crypto.PublicKey
}

func (a authority) sign(t *testing.T, l leaf) string {
	t.Helper()
	if l.from == 0 && l.until == 0 {
		l.from, l.until = -time.Hour, time.Hour
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: l.name}, DNSNames: l.dns,
		NotBefore: time.Now().Add(l.from), NotAfter: time.Now().Add(l.until),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, l.key, a.key)
	if err != nil {
		t.Fatal(err)
	}
	return certPEM(der)
}

func TestCertificatesAreHeldAgainstNodeAndKey(t *testing.T) {
	t.Parallel()
	ca, other := newAuthority(t, "ca"), newAuthority(t, "another ca")
	node, stranger := rsaKey(), caKey() // any other key will do
	curve, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	mine := ca.sign(t, leaf{name: "n1", key: node.Public()})
	theirs := ca.sign(t, leaf{name: "n1", key: stranger.Public()})
	tests := []struct {
		name         string
		answer       Answer
		renamed      string // what its configuration names the node
		provider     string // "": file; "none": not set
		noPKI, noJWT bool
		warns, fails string
	}{
		{name: "certificate for the CSR", answer: Answer{Certificate: mine, CA: ca.pem()}},
		{name: "certificate and key from the helper", answer: Answer{Certificate: theirs, CA: ca.pem(), Key: rsaPEM(stranger)}},
		{name: "PKCS #8 key", answer: Answer{Certificate: theirs, CA: ca.pem(), Key: pkcs8PEM(t, stranger)}},
		{name: "chain and several authorities", answer: Answer{Certificate: mine + "\n" + ca.pem(), CA: other.pem() + ca.pem()}},
		{name: "name in another letter case", answer: Answer{Certificate: ca.sign(t, leaf{name: "N1.", key: node.Public()}), CA: ca.pem()}},
		{name: "name only as DNS name", answer: Answer{Certificate: ca.sign(t, leaf{dns: []string{"n1"}, key: node.Public()}), CA: ca.pem()}},
		{name: "no pki, ssldir from the helper", noPKI: true, answer: Answer{Certificate: mine, CA: ca.pem(), SSLDir: "/s"}},
		{name: "no pki, nothing", noPKI: true},

		{name: "pki without certificate", fails: "no certificate in it"},
		{name: "no ca", answer: Answer{Certificate: mine}, fails: "certificate without ca"},
		{name: "no certificate", noPKI: true, answer: Answer{CA: ca.pem()}, warns: "ca without certificate"},
		{name: "key alone", noPKI: true, answer: Answer{Key: rsaPEM(node)}, fails: "key without certificate"},
		{name: "no directory", noPKI: true, answer: Answer{Certificate: mine, CA: ca.pem()}, fails: "set ssldir"},
		{name: "key without jwt", noJWT: true, answer: Answer{Certificate: theirs, CA: ca.pem(), Key: rsaPEM(stranger)}, fails: "needs features.jwt"},

		{name: "another node's name", answer: Answer{Certificate: ca.sign(t, leaf{name: "n2", key: node.Public()}), CA: ca.pem()}, fails: `certificate: it is for "n2", this node is "n1"`},
		{name: "another node's name, ours as DNS name", answer: Answer{Certificate: ca.sign(t, leaf{name: "n2", dns: []string{"n1"}, key: node.Public()}), CA: ca.pem()}, fails: `it is for "n2"`},
		{name: "another node's key", answer: Answer{Certificate: theirs, CA: ca.pem()}, fails: "does not belong to the key of the node's CSR"},
		{name: "another key than the one beside it", answer: Answer{Certificate: mine, CA: ca.pem(), Key: rsaPEM(stranger)}, fails: "does not belong to the key that comes with it"},
		{name: "old name beside a new one", renamed: "n2", answer: Answer{Certificate: mine, CA: ca.pem()}, fails: `certificate: it is for "n1", while identity in the configuration is "n2"`},
		{name: "new name beside a new one", renamed: "n2", answer: Answer{Certificate: ca.sign(t, leaf{name: "n2", key: node.Public()}), CA: ca.pem()}, warns: "comes back under that name"},
		{name: "third name beside a new one", renamed: "n2", answer: Answer{Certificate: ca.sign(t, leaf{name: "n3", key: node.Public()}), CA: ca.pem()}, fails: `it is for "n3", while`},
		{name: "no certificate beside a new name", renamed: "n2", noPKI: true, warns: "comes back under that name"},
		{name: "provider that takes Puppet's", provider: "puppet", answer: Answer{Certificate: mine, CA: ca.pem()}, fails: `plugin.security.provider is "puppet", with which the node does not use the certificate it gets; set it to file`},
		{name: "no provider", provider: "none", answer: Answer{Certificate: mine, CA: ca.pem()}, fails: "plugin.security.provider is not set, and its default is puppet, with which the node does not use the certificate it gets"},
		{name: "no provider and no certificate", provider: "none", noPKI: true, warns: "plugin.security.provider is not set"},
		{name: "provider with keys in a device", provider: "pkcs11", answer: Answer{Certificate: mine, CA: ca.pem()}, warns: "does not use the certificate it gets"},
		{name: "expired", answer: Answer{Certificate: ca.sign(t, leaf{"n1", nil, -2 * time.Hour, -time.Hour, node.Public()}), CA: ca.pem()}, fails: "it expired at"},
		{name: "not yet valid", answer: Answer{Certificate: ca.sign(t, leaf{"n1", nil, time.Hour, 2 * time.Hour, node.Public()}), CA: ca.pem()}, warns: "not valid before"},
		{name: "another authority's", answer: Answer{Certificate: mine, CA: certPEM(selfSigned(t, curve))}, warns: "not issued by the ca"},
		{name: "elliptic key", answer: Answer{Certificate: ca.sign(t, leaf{name: "n1", key: curve.Public()}), CA: ca.pem(), Key: pkcs8PEM(t, curve)}, warns: "RSA only"},

		{name: "certificate that is none", answer: Answer{Certificate: "hello", CA: ca.pem()}, fails: "certificate: it is no PEM"},
		{name: "certificate with text behind", answer: Answer{Certificate: mine + "hello", CA: ca.pem()}, fails: "certificate: it is no PEM"},
		{name: "certificate of nonsense", answer: Answer{Certificate: certPEM([]byte("x")), CA: ca.pem()}, fails: "certificate: x509"},
		{name: "key for a certificate", answer: Answer{Certificate: rsaPEM(node), CA: ca.pem()}, fails: `certificate: it is a PEM block of type "RSA PRIVATE KEY"`},
		{name: "ca that is none", answer: Answer{Certificate: mine, CA: "hello"}, fails: "ca: it is no PEM"},
		{name: "key that is none", answer: Answer{Certificate: mine, CA: ca.pem(), Key: mine}, fails: "key: it is a PEM block"},
	}
	csr, err := trust.ParseCSR(requestFor(t, node, "n1"))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := CheckInput{Valid: anyIdentity, Identity: "n1", Config: plainConfig()}
			c.Config.Features.PKI, c.Config.Features.JWT = !tt.noPKI, !tt.noJWT
			if !tt.noPKI {
				c.CSR, c.SSLDir = csr, "/s"
			}
			tt.answer.Configuration = fileSettings()
			switch tt.provider {
			case "":
			case "none":
				delete(tt.answer.Configuration, trust.ProviderKey)
			default:
				tt.answer.Configuration[trust.ProviderKey] = tt.provider
			}
			if tt.renamed != "" {
				tt.answer.Configuration["identity"] = tt.renamed
			}
			wantFindings(t, tt.answer, c, tt.warns, tt.fails)
		})
	}
}

func selfSigned(t *testing.T, key *ecdsa.PrivateKey) []byte {
	t.Helper()
	template := &x509.Certificate{SerialNumber: big.NewInt(3), Subject: pkix.Name{CommonName: "ca"}, IsCA: true, BasicConstraintsValid: true, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

func TestFilesElsewhereAreTold(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t, "ca")
	a := Answer{Certificate: ca.sign(t, leaf{name: "n1", key: rsaKey().Public()}), CA: ca.pem()}
	a.Configuration = with(fileSettings(), "plugin.security.file.key", "/elsewhere/private.pem")
	wantFindings(t, a, CheckInput{Valid: anyIdentity, Identity: "n1", Config: plainConfig(), SSLDir: "/s"}, "the node writes /s/private.pem", "")
}
