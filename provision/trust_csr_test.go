package provision

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"errors"
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
	return string(pem.EncodeToMemory(&pem.Block{Type: csrBlock, Bytes: der}))
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
	rich := named("n1.example.net")
	rich.DNSNames = []string{"n1.example.net", "n1"}
	rich.IPAddresses = []net.IP{net.IPv4(192, 0, 2, 1)}
	rich.ExtraExtensions = []pkix.Extension{extension(t, oidExtKeyUsage, []asn1.ObjectIdentifier{{1, 3, 6, 1, 5, 5, 7, 3, 2}})}
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
			got, err := verifyCSR(tt.reply, "n1.example.net", config.Default().CertDenyList)
			if err != nil {
				t.Fatal(err)
			}
			if !sameKey(got.PublicKey, rsaKey().Public()) {
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
		{"forbidden email in the subject", change(func(c *x509.CertificateRequest) {
			c.Subject.ExtraNames = []pkix.AttributeTypeAndValue{{Type: oidCommonName, Value: "n1"}, {Type: oidEmailAddress, Value: "x@boss.mcollective"}}
		}), "cert_deny_list forbids"},
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
	deny := append(config.Default().CertDenyList, pattern(`^10\.`))
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := verifyCSR(csrReply(t, rsaKey(), tt.template), "n1", deny)
			if got != nil || err == nil {
				t.Errorf("got a request and error %v, want an error", err)
			}
			wantCause(t, err, ErrCSR, tt.says)
		})
	}
}

func TestForbiddenIdentityGetsNoCertificate(t *testing.T) {
	t.Parallel()
	for _, identity := range []string{"boss.mcollective", "boss.privileged.choria", "boss.CHORIA"} {
		_, err := verifyCSR(csrReply(t, rsaKey(), named(identity)), identity, config.Default().CertDenyList)
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
		{"headers", string(pem.EncodeToMemory(&pem.Block{Type: csrBlock, Headers: map[string]string{"A": "b"}, Bytes: block.Bytes})), good.PublicKey, "more in it than one"},
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
			got, err := verifyCSR(wire.CSRReply{CSR: tt.csr, PublicKey: tt.key}, "n1", nil)
			if got != nil || err == nil {
				t.Errorf("got a request and error %v, want an error", err)
			}
			wantCause(t, err, ErrCSR, tt.says)
		})
	}
}

func FuzzVerifyCSR(f *testing.F) {
	good := csrReply(f, rsaKey(), named("n1"))
	f.Add(good.CSR, good.PublicKey)
	f.Add("", "")
	f.Add(good.PublicKey, good.CSR)
	f.Add(csrPEM([]byte{0x30, 0x80}), good.PublicKey)
	f.Fuzz(func(t *testing.T, text, key string) {
		got, err := verifyCSR(wire.CSRReply{CSR: text, PublicKey: key}, "n1", config.Default().CertDenyList)
		if err != nil && !errors.Is(err, ErrCSR) {
			t.Errorf("got error %v, want one that unwraps to ErrCSR", err)
		}
		if err == nil && got.Subject.CommonName != "n1" {
			t.Errorf("got a request for %q, want n1", got.Subject.CommonName)
		}
	})
}

func pattern(source string) config.Pattern {
	return config.Pattern{Regexp: regexp.MustCompile(source), Source: source}
}
