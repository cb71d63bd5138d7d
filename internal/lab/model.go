package lab

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/choria-io/tokens"
)

// The kinds of network.
const (
	Insecure = "insecure" // no TLS, no credentials
	PKI      = "pki"      // x509 certificates
	Issuer   = "issuer"   // Organization Issuer, protocol v2
)

// model is what differs between the kinds of network. Its methods but
// makeKeys and startBroker work in any process of the lab.
type model interface {
	makeKeys() error
	startBroker(ctx context.Context) (broker, error)
	collective() string                                                // in production
	provisioningJWT(claims *tokens.ProvisioningClaims) (string, error) // signed by the site
	strangersJWT(claims *tokens.ProvisioningClaims) (string, error)    // signed by another site
	provisioner() map[string]any                                       // keys of provision.yaml
	client(name string) settings                                       // of a Choria client
	answer(q question, s site) (map[string]any, error)                 // the helper's
	verify(node string, seen connection) ([]string, error)             // credentials, from outside
}

func modelOf(enrollment, dir string) (model, error) {
	files := files{dir: dir, keys: filepath.Join(dir, "keys")}
	switch enrollment {
	case Insecure:
		return insecure{files}, nil
	case PKI:
		return pki{files}, nil
	case Issuer:
		return issuer{files}, nil
	}
	return nil, fmt.Errorf("enrollment %q: choose one of %s, %s, %s", enrollment, Insecure, PKI, Issuer)
}

// files finds the files that the kinds of network have in common.
type files struct{ dir, keys string }

func (f files) key(name string) string { return filepath.Join(f.keys, name) }

// site is what every process of a lab knows, from lab.json.
type site struct {
	Enrollment string   `json:"enrollment"`
	Broker     string   `json:"broker"`
	Collective string   `json:"collective"`
	Nodes      []string `json:"nodes"`
}

const siteFile = "lab.json"

func (s site) save(dir string) error {
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, siteFile), text, 0o600)
}

func loadSite(dir string) (s site, n model, err error) {
	text, err := os.ReadFile(filepath.Join(dir, siteFile))
	if err != nil {
		return s, nil, fmt.Errorf("reading what the lab is: %w", err)
	}
	if err := json.Unmarshal(text, &s); err != nil {
		return s, nil, fmt.Errorf("reading what the lab is from %s: %w", siteFile, err)
	}
	n, err = modelOf(s.Enrollment, dir)
	return s, n, err
}

// organization is the name of the one organization: that of its issuer and of
// the broker's production account.
const organization = "choria"

// validity is that of everything a lab signs: longer than the year that a
// provisioner gives to servers, which a token's issuer must outlive.
const validity = 2 * 365 * 24 * time.Hour

// provisioningClaims are what a node learns from its provisioning.jwt:
// providers/provtarget/builddefaults of go-choria reads them.
func provisioningClaims(s site, token string, upgrades bool) (*tokens.ProvisioningClaims, error) {
	claims, err := tokens.NewProvisioningClaims(
		false, true, token, "", "", []string{s.Broker}, "", "", "", organization, "Choria Lab", validity)
	if err != nil {
		return nil, fmt.Errorf("making a provisioning.jwt: %w", err)
	}
	claims.ProtoV2 = s.Enrollment == Issuer
	claims.AllowUpdate = upgrades
	claims.Extensions = tokens.MapClaims{"site": "lab"}
	return claims, nil
}
