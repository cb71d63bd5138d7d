package fake

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"time"

	"choria-provision/config"

	"github.com/choria-io/tokens"
)

// Site is what all nodes of a fleet have in common.
type Site struct {
	Token   string // shared with the provisioner
	JWT     string // their provisioning.jwt
	Signer  string // hex public key that verifies JWT
	Version string // of the server they run

	Upgradable bool
}

// NewSite makes a site with a signed provisioning.jwt.
func NewSite() (*Site, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	site := &Site{Token: "s3cret", Signer: hex.EncodeToString(public), Version: "0.29.4"}
	claims, err := tokens.NewProvisioningClaims(false, true, site.Token, "", "", []string{"nats://127.0.0.1:4222"}, "", "", "", "choria", "fake", time.Hour)
	if err != nil {
		return nil, fmt.Errorf("making provisioning claims: %w", err)
	}
	site.JWT, err = tokens.SignToken(claims, private)
	return site, err
}

// Config returns a provisioner configuration that fits the site, without
// features.
func (s *Site) Config() *config.Config {
	c := config.Default()
	c.Token = config.NewSecret(s.Token)
	c.JWTVerifyCert = s.Signer
	c.Workers, c.Insecure = 4, true
	return c
}

func (s *Site) inventory(string) any {
	return map[string]any{
		"agents":          []string{"choria_provision", "rpcutil"},
		"facts":           map[string]any{"os": "linux"},
		"version":         s.Version,
		"upgradable":      s.Upgradable,
		"collectives":     []string{"provisioning"},
		"main_collective": "provisioning",
	}
}
