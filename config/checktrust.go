package config

import (
	"crypto"
	"crypto/ed25519"
	"crypto/rsa"
	"net/url"
)

// checkVerifyKey reads jwt_verify_cert as a run does and remembers the key if it
// may be an Organization Issuer's.
func checkVerifyKey(c *Config, keys Keys) []finding {
	const key = "jwt_verify_cert"
	if c.JWTVerifyCert == "" {
		return nil
	}
	public, err := keys.VerifyKey(c.JWTVerifyCert)
	if err != nil {
		return []finding{faultAt(key, err)}
	}
	c.keys.issuer, _ = public.(ed25519.PublicKey)
	return nil
}

// checkSigningKey requires that key and token can be read and belong together.
// If they do not, everything is accepted until the server's next start, when
// the broker rejects it.
func checkSigningKey(c *Config, keys Keys) []finding {
	const key = "jwt_signing_key"
	if !c.Features.ED25519 || c.JWTSigningKey == "" {
		return nil
	}
	signer, err := keys.SigningKey(c.JWTSigningKey)
	if err != nil {
		return append([]finding{faultAt(key, err)}, checkSigningToken(c, keys, nil)...)
	}
	c.keys.signer = signer.Public()
	found := checkAccess(key, c.JWTSigningKey)
	if c.JWTSigningToken != "" {
		return append(found, checkSigningToken(c, keys, signer)...)
	}
	return append(found, checkWithoutToken(c)...)
}

// checkSigningToken reads jwt_signing_token; signer is nil when it is unknown.
func checkSigningToken(c *Config, keys Keys, signer crypto.Signer) []finding {
	const key = "jwt_signing_token"
	if c.JWTSigningToken == "" {
		return nil
	}
	claims, err := keys.SigningToken(c.JWTSigningToken, signer)
	if err != nil {
		return []finding{faultAt(key, err)}
	}
	found := checkAccess(key, c.JWTSigningToken)
	if claims.ExpiresAt != nil && claims.IsExpired() {
		found = append(found, warning(key, absolute(c.JWTSigningToken)+" expired on "+claims.ExpireTime().UTC().Format("2006-01-02"), "have a new one made"))
	}
	return found
}

// checkWithoutToken warns about a signing key that brokers of an Organization
// Issuer do not accept by itself. That issuer is always ed25519, and the key that
// verifies provisioning.jwt; an RSA key signs server JWTs for brokers that have
// its public key in plugin.choria.network.server_signer_cert.
func checkWithoutToken(c *Config) []finding {
	_, isRSA := c.keys.signer.(*rsa.PublicKey)
	switch {
	case c.keys.issuer == nil || c.keys.signerIs(c.keys.issuer):
		return nil
	case isRSA:
		return []finding{warning("jwt_signing_key", "is an RSA key, and jwt_verify_cert an Organization Issuer's: that organization's brokers would refuse every server (Authorization Violation)", "name the provisioner's ed25519 seed, and its JWT as jwt_signing_token")}
	default:
		return []finding{warning("jwt_signing_token", "is missing, and jwt_signing_key is not the Organization Issuer's: servers would be provisioned and then refused by the broker (Authorization Violation)", "name the provisioner's own JWT, which carries the issuer's chain").because("jwt_signing_key")}
	}
}

func checkUpgrades(c *Config) []finding {
	const key = "upgrades_repository"
	if c.UpgradesRepository == "" {
		if c.Features.Upgrades && !c.UpgradesOptional {
			return []finding{warning(key, "is missing: every upgrade the helper asks for fails its node", "write the repository's URL, or set upgrades_optional").because("features.upgrades")}
		}
		return nil
	}
	if u, err := url.Parse(c.UpgradesRepository); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return []finding{mistake(key, "is not an http or https URL", "write one, such as https://repo.example.net/choria")}
	}
	return nil
}
