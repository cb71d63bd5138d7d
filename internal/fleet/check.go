package fleet

import (
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"

	"choria-provision/internal/fake"

	"github.com/choria-io/tokens"
)

// checkSettings is whether a configuration takes this very node to production.
func (f *Fleet) checkSettings(name string, s fake.State) error {
	var settings map[string]string
	if err := json.Unmarshal([]byte(s.Configured.Configuration), &settings); err != nil {
		return fmt.Errorf("its configuration: %w", err)
	}
	if got := settings["identity"]; got != name {
		return fmt.Errorf("it was configured to be %q", got)
	}
	switch settings["plugin.choria.server.provision"] {
	case "0", "false", "no":
		return nil
	}
	return errors.New("its configuration leaves provisioning on")
}

// checkCredentials is whether a node can use the credentials it was given.
func (f *Fleet) checkCredentials(name string, s fake.State) error {
	switch {
	case f.options.Issuer != "":
		return f.checkJWT(name, s)
	case f.options.PKI:
		return checkCertificate(name, s)
	}
	return nil
}

// checkJWT follows the server JWT to the issuer and to the node's own key.
func (f *Fleet) checkJWT(name string, s fake.State) error {
	issuer, err := hex.DecodeString(f.options.Issuer)
	if err != nil || len(issuer) != ed25519.PublicKeySize {
		return errors.New("the issuer's key is none")
	}
	claims, err := tokens.ParseServerToken(s.Configured.ServerJWT, ed25519.PublicKey(issuer))
	switch {
	case err != nil:
		return fmt.Errorf("its server JWT: %w", err)
	case claims.ChoriaIdentity != name:
		return fmt.Errorf("its server JWT is that of %q", claims.ChoriaIdentity)
	case s.Public == nil || claims.PublicKey != hex.EncodeToString(s.Public):
		return errors.New("its server JWT is for another key")
	}
	return nil
}

func checkCertificate(name string, s fake.State) error {
	block, _ := pem.Decode([]byte(s.Configured.Certificate))
	if block == nil {
		return errors.New("its certificate is none")
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return fmt.Errorf("its certificate: %w", err)
	}
	own, err := fake.CSRKey()
	if err != nil {
		return err
	}
	key, isRSA := own.(*rsa.PublicKey)
	switch {
	case cert.Subject.CommonName != name:
		return fmt.Errorf("its certificate is that of %q", cert.Subject.CommonName)
	case !isRSA || !key.Equal(cert.PublicKey):
		return errors.New("its certificate is for another key")
	case s.Configured.CA == "":
		return errors.New("it has a certificate and no CA")
	}
	return nil
}
