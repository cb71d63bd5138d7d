package provision

import (
	"fmt"

	"choria-provision/config"
	"choria-provision/provision/installstate"
	"choria-provision/provision/trust"
)

// Fingerprint identifies the installations of this site: its name, its
// enrollment model and its trust root, and nothing that rotates. Two
// configurations with one fingerprint may continue each other's work.
func Fingerprint(c *config.Config) (string, error) {
	root, err := trust.TrustRoot(c.JWTVerifyCert)
	if err != nil {
		return "", fmt.Errorf("jwt_verify_cert: %w", err)
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
