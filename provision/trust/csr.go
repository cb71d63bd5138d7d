package trust

import (
	"crypto"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"

	wire "github.com/choria-io/go-choria/providers/agent/mcorpc/golang/provision"

	"choria-provision/config"
)

// csrLimit bounds a CSR's PEM text in bytes, and so the size of its key: a
// real one has about 1 KiB.
const csrLimit = 16 << 10

// CSRBlock is the PEM type of a certificate request.
const CSRBlock = "CERTIFICATE REQUEST"

// CSRRules state which names a node may request a certificate for: its identity
// and the names that an Allow pattern matches whole, but no name that a Deny
// pattern matches in part.
type CSRRules struct {
	Identity    string
	Deny, Allow []config.Pattern
}

// VerifyCSR returns a node's certificate request if it asks for what a server
// needs and for nothing else. Certificate authorities read more of a request
// than crypto/x509 does and copy it into certificates, so unknown content is
// refused. Errors unwrap to ErrCSR.
func VerifyCSR(reply wire.CSRReply, rules CSRRules) (*x509.CertificateRequest, error) {
	csr, err := ParseCSR(reply.CSR)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCSR, err)
	}
	for _, check := range []func() error{
		csr.CheckSignature,
		func() error { return checkCSRStrength(csr) },
		func() error { return checkCSRKey(csr, reply.PublicKey) },
		func() error { return checkCSRAttributes(csr) },
		func() error { return checkCSRExtensions(csr) },
		func() error { return checkCSRNames(csr, rules) },
	} {
		if err := check(); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrCSR, err)
		}
	}
	return csr, nil
}

// ParseCSR reads a text that is one certificate request in PEM. It verifies
// nothing, and its errors unwrap to no sentinel.
func ParseCSR(text string) (*x509.CertificateRequest, error) {
	if len(text) > csrLimit {
		return nil, fmt.Errorf("it has %d bytes, at most %d are read", len(text), csrLimit)
	}
	text = strings.TrimSpace(text)
	block, rest := pem.Decode([]byte(text))
	switch {
	case block == nil:
		return nil, errors.New("it is no PEM block")
	case block.Type != CSRBlock:
		return nil, fmt.Errorf("it is a PEM block of type %q, want %q", block.Type, CSRBlock)
	case len(block.Headers) > 0 || len(rest) > 0 || !strings.HasPrefix(text, "-----BEGIN "+CSRBlock+"-----"):
		return nil, errors.New("there is more in it than one PEM block")
	}
	return x509.ParseCertificateRequest(block.Bytes)
}

// checkCSRKey compares the public key in the reply with the one in the request.
// go-choria labels a PKCS #1 key PUBLIC KEY, so both encodings are accepted.
func checkCSRKey(csr *x509.CertificateRequest, text string) error {
	if len(text) > csrLimit {
		return fmt.Errorf("its public_key has %d bytes, at most %d are read", len(text), csrLimit)
	}
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return errors.New("the public_key beside it is no PEM block")
	}
	key, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		if key, err = x509.ParsePKCS1PublicKey(block.Bytes); err != nil {
			return fmt.Errorf("the public_key beside it cannot be read: %w", err)
		}
	}
	if !SameKey(csr.PublicKey, key) {
		return errors.New("it holds another key than the public_key beside it")
	}
	return nil
}

// SameKey reports whether two public keys are equal. Kinds without an Equal
// method never are.
func SameKey(a, b any) bool {
	key, ok := a.(interface{ Equal(crypto.PublicKey) bool })
	return ok && key.Equal(b)
}

var (
	oidExtensionRequest  = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 14}
	oidChallengePassword = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 7}
	oidCommonName        = asn1.ObjectIdentifier{2, 5, 4, 3}
	oidSubjectAltName    = asn1.ObjectIdentifier{2, 5, 29, 17}
	oidBasicConstraints  = asn1.ObjectIdentifier{2, 5, 29, 19}
	oidKeyUsage          = asn1.ObjectIdentifier{2, 5, 29, 15}
	oidExtKeyUsage       = asn1.ObjectIdentifier{2, 5, 29, 37}
	oidServerAuth        = asn1.ObjectIdentifier{1, 3, 6, 1, 5, 5, 7, 3, 1}
	oidClientAuth        = asn1.ObjectIdentifier{1, 3, 6, 1, 5, 5, 7, 3, 2}
	oidSubjectKeyID      = asn1.ObjectIdentifier{2, 5, 29, 14}
)

// checkCSRAttributes refuses attributes that crypto/x509 ignores: OpenSSL also
// reads extensions, including names, from Microsoft's attribute.
func checkCSRAttributes(csr *x509.CertificateRequest) error {
	var request struct {
		Version    int
		Subject    asn1.RawValue
		PublicKey  asn1.RawValue
		Attributes []asn1.RawValue `asn1:"tag:0"`
	}
	if rest, err := asn1.Unmarshal(csr.RawTBSCertificateRequest, &request); err != nil || len(rest) > 0 {
		return errors.New("its attributes cannot be read")
	}
	for _, raw := range request.Attributes {
		var attribute struct {
			ID     asn1.ObjectIdentifier
			Values asn1.RawValue
		}
		if _, err := asn1.Unmarshal(raw.FullBytes, &attribute); err != nil {
			return fmt.Errorf("its attributes cannot be read: %w", err)
		}
		if !attribute.ID.Equal(oidExtensionRequest) && !attribute.ID.Equal(oidChallengePassword) {
			return fmt.Errorf("it holds an attribute nobody asked for: %s", attribute.ID)
		}
	}
	return nil
}

func checkCSRExtensions(csr *x509.CertificateRequest) error {
	seen := map[string]bool{}
	for _, extension := range csr.Extensions {
		id := extension.Id.String()
		if seen[id] {
			return fmt.Errorf("it asks for extension %s twice", id)
		}
		seen[id] = true
		if err := checkCSRExtension(extension); err != nil {
			return err
		}
	}
	return nil
}

func checkCSRExtension(extension pkix.Extension) error {
	switch {
	case extension.Id.Equal(oidSubjectAltName):
		return checkNameKinds(extension.Value)
	case extension.Id.Equal(oidSubjectKeyID):
		return nil
	case extension.Id.Equal(oidKeyUsage):
		return checkKeyUsage(extension.Value)
	case extension.Id.Equal(oidExtKeyUsage):
		return checkExtKeyUsage(extension.Value)
	case extension.Id.Equal(oidBasicConstraints):
		var constraints struct {
			IsCA       bool `asn1:"optional"`
			MaxPathLen int  `asn1:"optional,default:-1"`
		}
		if _, err := asn1.Unmarshal(extension.Value, &constraints); err != nil || constraints.IsCA {
			return errors.New("it asks to become a certificate authority")
		}
		return nil
	default:
		return fmt.Errorf("it asks for an extension that is not given away: %s", extension.Id)
	}
}

// checkNameKinds refuses the kinds of alternative names that crypto/x509 drops
// silently: directory names, other names, registered ids.
func checkNameKinds(value []byte) error {
	var names []asn1.RawValue
	if rest, err := asn1.Unmarshal(value, &names); err != nil || len(rest) > 0 {
		return errors.New("its alternative names cannot be read")
	}
	for _, name := range names {
		switch name.Tag {
		case 1, 2, 6, 7: // email, DNS, URI, IP in RFC 5280, 4.2.1.6
		default:
			return fmt.Errorf("it asks for an alternative name of a kind that cannot be checked (%d)", name.Tag)
		}
	}
	return nil
}
