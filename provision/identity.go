package provision

import (
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"os"
	"strings"

	"choria-provision/config"
	"choria-provision/provision/installstate"
)

// Fingerprint identifies the installations of this site: its name, its
// enrollment model and its trust root, and nothing that rotates. Two
// configurations with one fingerprint may continue each other's work.
func Fingerprint(c *config.Config) (string, error) {
	root, err := trustRoot(c.JWTVerifyCert)
	if err != nil {
		return "", err
	}
	canonical, err := installstate.Definition{Site: c.Site, Enrollment: enrollment(c), TrustRoot: root}.Canonical()
	if err != nil {
		return "", err
	}
	return installstate.Fingerprint(canonical), nil
}

func enrollment(c *config.Config) string {
	switch {
	case c.Features.PKI:
		return "pki"
	case c.Features.ED25519:
		return "issuer"
	case c.Insecure:
		return "insecure"
	default:
		return "tls"
	}
}

// trustRoot returns the public key that verifies provisioning.jwt, in hex: the
// key itself, so that neither a moved file nor a renewed certificate counts.
func trustRoot(verify string) (string, error) {
	if verify == "" {
		return "", nil
	}
	data, err := os.ReadFile(verify)
	if os.IsNotExist(err) {
		return strings.ToLower(verify), nil // a hex ed25519 key
	}
	if err != nil {
		return "", fmt.Errorf("jwt_verify_cert: %w", err)
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return strings.ToLower(strings.TrimSpace(string(data))), nil
	}
	if block.Type != "CERTIFICATE" {
		return hex.EncodeToString(block.Bytes), nil
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return "", fmt.Errorf("jwt_verify_cert: %s: %w", verify, err)
	}
	return hex.EncodeToString(certificate.RawSubjectPublicKeyInfo), nil
}
