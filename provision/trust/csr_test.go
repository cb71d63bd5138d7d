package trust

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"net"
	"net/url"
	"regexp"
	"strings"
	"testing"

	wire "github.com/choria-io/go-choria/providers/agent/mcorpc/golang/provision"

	"choria-provision/config"
)

// csrReply signs a request for template as a node would send it.
func csrReply(t testing.TB, key *rsa.PrivateKey, template *x509.CertificateRequest) wire.CSRReply {
	t.Helper()
	der, err := x509.CreateCertificateRequest(rand.Reader, template, key)
	if err != nil {
		t.Fatal(err)
	}
	return wire.CSRReply{CSR: csrPEM(der), PublicKey: pkcs1PEM(key), SSLDir: "/s"}
}

func csrPEM(der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: CSRBlock, Bytes: der}))
}

// pkcs1PEM labels a key as go-choria's agent does.
func pkcs1PEM(key *rsa.PrivateKey) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: x509.MarshalPKCS1PublicKey(&key.PublicKey)}))
}

func named(name string) *x509.CertificateRequest {
	return &x509.CertificateRequest{Subject: pkix.Name{CommonName: name}}
}

func mustURL(t *testing.T, text string) *url.URL {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func extension(t *testing.T, id asn1.ObjectIdentifier, value any) pkix.Extension {
	t.Helper()
	der, err := asn1.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return pkix.Extension{Id: id, Value: der}
}

func TestRequestForOwnNameIsTaken(t *testing.T) {
	t.Parallel()
	rich := named("N1.Example.net")
	rich.DNSNames = []string{"n1.example.net", "n1.EXAMPLE.net.", "n1", "N1.rack7.example.net"}
	rich.IPAddresses = []net.IP{net.IPv4(192, 0, 2, 1)}
	rich.URIs = []*url.URL{mustURL(t, "spiffe://example.net/n1")}
	rich.ExtraExtensions = []pkix.Extension{
		extension(t, oidExtKeyUsage, []asn1.ObjectIdentifier{oidServerAuth, oidClientAuth}),
		extension(t, oidKeyUsage, asn1.BitString{Bytes: []byte{0b10101000}, BitLength: 5}),
		extension(t, oidBasicConstraints, struct{}{}),
		extension(t, oidSubjectKeyID, []byte{1, 2, 3}),
	}
	allow := []config.Pattern{pattern(`n1`), pattern(`n1\.rack\d+\.example\.net`), pattern(`192\.0\.2\.\d+`), pattern(`spiffe://example\.net/n1`)}
	pkixKey := csrReply(t, rsaKey(), named("n1.example.net"))
	pkixKey.PublicKey = publicPEM(t, rsaKey())
	tests := []struct {
		name  string
		reply wire.CSRReply
	}{
		{"as go-choria makes it", csrReply(t, rsaKey(), named("n1.example.net"))},
		{"with names of its own", csrReply(t, rsaKey(), rich)},
		{"with a PKIX public key", pkixKey},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := VerifyCSR(tt.reply, CSRRules{"n1.example.net", config.Default().CertDenyList, allow})
			if err != nil {
				t.Fatal(err)
			}
			if !SameKey(got.PublicKey, rsaKey().Public()) {
				t.Errorf("got another key, want the node's")
			}
		})
	}
}

func TestRequestsForMoreAreRefused(t *testing.T) {
	t.Parallel()
	change := func(f func(*x509.CertificateRequest)) *x509.CertificateRequest {
		template := named("n1")
		f(template)
		return template
	}
	extra := func(e ...pkix.Extension) *x509.CertificateRequest {
		return change(func(c *x509.CertificateRequest) { c.ExtraExtensions = e })
	}
	generalName := func(tag int, constructed bool) pkix.Extension {
		return extension(t, oidSubjectAltName, []asn1.RawValue{{Class: 2, Tag: tag, IsCompound: constructed, Bytes: []byte{4, 1, 0}}})
	}
	dnsName := func(name string) pkix.Extension {
		return extension(t, oidSubjectAltName, []asn1.RawValue{{Class: 2, Tag: 2, Bytes: []byte(name)}})
	}
	ca := struct{ IsCA bool }{true}
	tests := []struct {
		name     string
		template *x509.CertificateRequest
		says     string
	}{
		{"another name", named("n2"), `asks for the name "n2"`},
		{"no name", named(""), "0 common names"},
		{"two names", change(func(c *x509.CertificateRequest) {
			c.Subject.ExtraNames = []pkix.AttributeTypeAndValue{{Type: oidCommonName, Value: "boss.privileged.choria"}, {Type: oidCommonName, Value: "n1"}}
		}), `"boss.privileged.choria"`},
		{"own name twice", change(func(c *x509.CertificateRequest) {
			c.Subject.ExtraNames = []pkix.AttributeTypeAndValue{{Type: oidCommonName, Value: "n1"}, {Type: oidCommonName, Value: "n1"}}
		}), "2 common names"},
		{"email in the subject", change(func(c *x509.CertificateRequest) {
			c.Subject.ExtraNames = []pkix.AttributeTypeAndValue{{Type: oidCommonName, Value: "n1"}, {Type: asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 1}, Value: "x@example.net"}}
		}), `its subject holds more than a common name: 1.2.840.113549.1.9.1 = "x@example.net"`},
		{"group of another system in the subject", change(func(c *x509.CertificateRequest) { c.Subject.Organization = []string{"system:masters"} }), `more than a common name: 2.5.4.10 = "system:masters"`},
		{"unit in the subject", change(func(c *x509.CertificateRequest) { c.Subject.OrganizationalUnit = []string{"ou"} }), "more than a common name: 2.5.4.11"},
		{"name that looks the same", named("\uff4e1"), "asks for the name"},
		{"name with two dots behind", named("n1.."), "asks for the name"},
		{"wildcard of everything", change(func(c *x509.CertificateRequest) { c.DNSNames = []string{"n1", "*"} }), `asks for the name "*", which is neither this node's nor allowed by cert_allow_list`},
		{"wildcard past the deny list", change(func(c *x509.CertificateRequest) { c.DNSNames = []string{"*.example.net"} }), `asks for the name "*.example.net", which is neither`},
		{"another machine's name", change(func(c *x509.CertificateRequest) { c.DNSNames = []string{"n1", "n2"} }), `asks for the name "n2", which is neither`},
		{"name that holds an allowed one", change(func(c *x509.CertificateRequest) { c.DNSNames = []string{"alias.example.net"} }), `"alias.example.net", which is neither`},
		{"name that ends in an allowed one", change(func(c *x509.CertificateRequest) { c.DNSNames = []string{"an-alias"} }), `"an-alias", which is neither`},
		{"name that is allowed and forbidden", change(func(c *x509.CertificateRequest) { c.DNSNames = []string{"boss.mcollective"} }), `"boss.mcollective", which cert_deny_list forbids`},
		{"address", change(func(c *x509.CertificateRequest) { c.IPAddresses = []net.IP{net.IPv4(192, 0, 2, 1)} }), `"192.0.2.1", which is neither`},
		{"email", change(func(c *x509.CertificateRequest) { c.EmailAddresses = []string{"root@example.net"} }), `"root@example.net", which is neither`},
		{"URI", change(func(c *x509.CertificateRequest) { c.URIs = []*url.URL{mustURL(t, "spiffe://example.net/vault")} }), `"spiffe://example.net/vault", which is neither`},
		{"any extended usage", extra(extension(t, oidExtKeyUsage, []asn1.ObjectIdentifier{{2, 5, 29, 37, 0}})), "extended key usage that no server needs: 2.5.29.37.0"},
		{"OCSP signing", extra(extension(t, oidExtKeyUsage, []asn1.ObjectIdentifier{oidServerAuth, {1, 3, 6, 1, 5, 5, 7, 3, 9}})), "no server needs: 1.3.6.1.5.5.7.3.9"},
		{"certificate signing", extra(extension(t, oidKeyUsage, asn1.BitString{Bytes: []byte{0b00000100}, BitLength: 6})), "key usage that no server needs (bit 5)"},
		{"usage that cannot be read", extra(extension(t, oidKeyUsage, "x")), "its key usage cannot be read"},
		{"extended usage that cannot be read", extra(extension(t, oidExtKeyUsage, "x")), "its extended key usage cannot be read"},
		{"forbidden DNS name", change(func(c *x509.CertificateRequest) { c.DNSNames = []string{"n1", "boss.mcollective"} }), `"boss.mcollective", which cert_deny_list forbids`},
		{"forbidden DNS name in capitals", change(func(c *x509.CertificateRequest) { c.DNSNames = []string{"boss.MCollective"} }), "cert_deny_list forbids"},
		{"forbidden DNS name with the root's dot", change(func(c *x509.CertificateRequest) { c.DNSNames = []string{"boss.choria."} }), "cert_deny_list forbids"},
		{"forbidden DNS name with NUL", extra(dnsName("boss.choria\x00")), "blanks or control characters"},
		{"forbidden DNS name with a line end", extra(dnsName("boss.choria\n")), "blanks or control characters"},
		{"forbidden email", change(func(c *x509.CertificateRequest) { c.EmailAddresses = []string{"x@boss.privileged.choria"} }), "cert_deny_list forbids"},
		{"forbidden URI", change(func(c *x509.CertificateRequest) { c.URIs = []*url.URL{mustURL(t, "spiffe://x/boss.choria")} }), "cert_deny_list forbids"},
		{"forbidden host of a URI", change(func(c *x509.CertificateRequest) { c.URIs = []*url.URL{mustURL(t, "https://boss.choria:8080/x")} }), "cert_deny_list forbids"},
		{"forbidden IP", change(func(c *x509.CertificateRequest) { c.IPAddresses = []net.IP{net.IPv4(10, 0, 0, 1)} }), `"10.0.0.1", which cert_deny_list forbids (^10\.)`},
		{"other name", extra(generalName(0, true)), "cannot be checked (0)"},
		{"directory name", extra(generalName(4, true)), "cannot be checked (4)"},
		{"registered id", extra(generalName(8, false)), "cannot be checked (8)"},
		{"authority", extra(extension(t, oidBasicConstraints, ca)), "certificate authority"},
		{"issuer's names", extra(extension(t, asn1.ObjectIdentifier{2, 5, 29, 18}, []asn1.RawValue{})), "2.5.29.18"},
		{"names in a place OpenSSL reads", change(func(c *x509.CertificateRequest) {
			//lint:ignore SA1019 what Go passes over is the point
			c.Attributes = []pkix.AttributeTypeAndValueSET{{
				Type:  asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 311, 2, 1, 14},
				Value: [][]pkix.AttributeTypeAndValue{{{Type: oidSubjectAltName, Value: []byte("boss.choria")}}},
			}}
		}), "attribute nobody asked for"},
	}
	deny := append(config.Default().CertDenyList, pattern(`^10\.`), pattern(`^vault\.example\.net$`))
	allow := []config.Pattern{pattern(`n1|alias`), pattern(`.*\.mcollective`)}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := VerifyCSR(csrReply(t, rsaKey(), tt.template), CSRRules{"n1", deny, allow})
			if got != nil || err == nil {
				t.Errorf("got a request and error %v, want an error", err)
			}
			wantCause(t, err, ErrCSR, tt.says)
		})
	}
}

// signedBy is a request for n1 by any key.
func signedBy(t *testing.T, key crypto.Signer, algorithm x509.SignatureAlgorithm) wire.CSRReply {
	t.Helper()
	template := named("n1")
	template.SignatureAlgorithm = algorithm
	der, err := x509.CreateCertificateRequest(rand.Reader, template, key)
	if err != nil {
		t.Fatal(err)
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	return wire.CSRReply{CSR: csrPEM(der), PublicKey: string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}))}
}

func TestWeakKeysAndSignaturesAreRefused(t *testing.T) {
	t.Parallel()
	short, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	curve := func(c elliptic.Curve) crypto.Signer {
		key, err := ecdsa.GenerateKey(c, rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		return key
	}
	_, edwards := newKey(t)
	tests := []struct {
		name  string
		reply wire.CSRReply
		says  string // "": it is taken
	}{
		{"RSA of 1024 bits", signedBy(t, short, x509.SHA256WithRSA), "its RSA key has 1024 bits, want 2048 or more"},
		{"P-224", signedBy(t, curve(elliptic.P224()), x509.ECDSAWithSHA256), "on a curve of 224 bits, want 256 or more"},
		{"SHA-1", signedBy(t, rsaKey(), x509.SHA1WithRSA), "its signature is SHA1-RSA, want SHA-256 or better"},
		{"RSA", signedBy(t, rsaKey(), x509.SHA512WithRSA), ""},
		{"RSA PSS", signedBy(t, rsaKey(), x509.SHA256WithRSAPSS), ""},
		{"P-256", signedBy(t, curve(elliptic.P256()), x509.ECDSAWithSHA256), ""},
		{"P-521", signedBy(t, curve(elliptic.P521()), x509.ECDSAWithSHA512), ""},
		{"ed25519", signedBy(t, edwards, x509.PureEd25519), ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := VerifyCSR(tt.reply, CSRRules{Identity: "n1"})
			if (got == nil) != (tt.says != "") {
				t.Errorf("got request %v and error %v, want %q", got != nil, err, tt.says)
			}
			wantCause(t, err, ErrCSR, tt.says)
		})
	}
}

func TestForbiddenIdentityGetsNoCertificate(t *testing.T) {
	t.Parallel()
	for _, identity := range []string{"boss.mcollective", "boss.privileged.choria", "boss.CHORIA"} {
		_, err := VerifyCSR(csrReply(t, rsaKey(), named(identity)), CSRRules{Identity: identity, Deny: config.Default().CertDenyList})
		wantCause(t, err, ErrCSR, "cert_deny_list forbids")
		if err == nil {
			t.Errorf("%s: got no error, want one", identity)
		}
	}
}

func TestRequestsThatAreNoneAreRefused(t *testing.T) {
	t.Parallel()
	good := csrReply(t, rsaKey(), named("n1"))
	block, _ := pem.Decode([]byte(good.CSR))
	forged := append([]byte{}, block.Bytes...)
	forged[len(forged)-1] ^= 1
	tests := []struct{ name, csr, key, says string }{
		{"nothing", "", good.PublicKey, "no PEM block"},
		{"no PEM", "hello", good.PublicKey, "no PEM block"},
		{"another kind of PEM", good.PublicKey, good.PublicKey, `type "PUBLIC KEY"`},
		{"PEM of nonsense", csrPEM([]byte("nonsense")), good.PublicKey, "asn1"},
		{"empty PEM", csrPEM(nil), good.PublicKey, "asn1"},
		{"text before", "x\n" + good.CSR, good.PublicKey, "more in it than one"},
		{"two requests", good.CSR + good.CSR, good.PublicKey, "more in it than one"},
		{"headers", string(pem.EncodeToMemory(&pem.Block{Type: CSRBlock, Headers: map[string]string{"A": "b"}, Bytes: block.Bytes})), good.PublicKey, "more in it than one"},
		{"megabytes", strings.Repeat("x", 1<<20), good.PublicKey, "at most"},
		{"broken signature", csrPEM(forged), good.PublicKey, "verification"},
		{"no public key", good.CSR, "", "public_key beside it is no PEM"},
		{"public key of nonsense", good.CSR, string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: []byte("x")})), "public_key beside it cannot be read"},
		{"another public key", good.CSR, pkcs1PEM(makeRSA()), "another key"},
		{"public key of megabytes", good.CSR, strings.Repeat("x", 1<<20), "at most"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := VerifyCSR(wire.CSRReply{CSR: tt.csr, PublicKey: tt.key}, CSRRules{Identity: "n1"})
			if got != nil || err == nil {
				t.Errorf("got a request and error %v, want an error", err)
			}
			wantCause(t, err, ErrCSR, tt.says)
		})
	}
}

func pattern(source string) config.Pattern {
	return config.Pattern{Regexp: regexp.MustCompile(source), Source: source}
}
