package trust

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"encoding/asn1"
	"errors"
	"fmt"
	"slices"
)

const (
	minRSABits   = 2048
	minCurveBits = 256
)

// csrSignatures lists the accepted signature algorithms: none uses a hash with
// known collisions.
var csrSignatures = []x509.SignatureAlgorithm{
	x509.SHA256WithRSA, x509.SHA384WithRSA, x509.SHA512WithRSA,
	x509.SHA256WithRSAPSS, x509.SHA384WithRSAPSS, x509.SHA512WithRSAPSS,
	x509.ECDSAWithSHA256, x509.ECDSAWithSHA384, x509.ECDSAWithSHA512,
	x509.PureEd25519,
}

// checkCSRStrength refuses weak keys and signatures.
func checkCSRStrength(csr *x509.CertificateRequest) error {
	if !slices.Contains(csrSignatures, csr.SignatureAlgorithm) {
		return fmt.Errorf("its signature is %s, want SHA-256 or better", csr.SignatureAlgorithm)
	}
	switch key := csr.PublicKey.(type) {
	case *rsa.PublicKey:
		if bits := key.N.BitLen(); bits < minRSABits {
			return fmt.Errorf("its RSA key has %d bits, want %d or more", bits, minRSABits)
		}
	case *ecdsa.PublicKey:
		if bits := key.Curve.Params().BitSize; bits < minCurveBits {
			return fmt.Errorf("its key is on a curve of %d bits, want %d or more", bits, minCurveBits)
		}
	case ed25519.PublicKey:
	default:
		return fmt.Errorf("its key is of a kind that no server has (%T)", key)
	}
	return nil
}

// serverUsages are the bits of the key usage extension (RFC 5280, 4.2.1.3) that
// TLS needs: digital signature, key encipherment and key agreement.
var serverUsages = []int{0, 2, 4}

func checkKeyUsage(value []byte) error {
	var usage asn1.BitString
	if rest, err := asn1.Unmarshal(value, &usage); err != nil || len(rest) > 0 {
		return errors.New("its key usage cannot be read")
	}
	for bit := range usage.BitLength {
		if usage.At(bit) == 1 && !slices.Contains(serverUsages, bit) {
			return fmt.Errorf("it asks for a key usage that no server needs (bit %d)", bit)
		}
	}
	return nil
}

func checkExtKeyUsage(value []byte) error {
	var usages []asn1.ObjectIdentifier
	if rest, err := asn1.Unmarshal(value, &usages); err != nil || len(rest) > 0 {
		return errors.New("its extended key usage cannot be read")
	}
	for _, usage := range usages {
		if !usage.Equal(oidServerAuth) && !usage.Equal(oidClientAuth) {
			return fmt.Errorf("it asks for an extended key usage that no server needs: %s", usage)
		}
	}
	return nil
}
