package config

import (
	"bytes"
	"crypto/ed25519"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"

	"github.com/choria-io/tokens"
	"github.com/golang-jwt/jwt/v5"
)

const hexDigits = "64 hex digits"

// checkVerifyKey holds jwt_verify_cert to what go-choria's tokens package
// reads: a file with an RSA key or certificate in PEM or a hex ed25519 key, or
// that key itself.
func checkVerifyKey(c *Config) []finding {
	const key = "jwt_verify_cert"
	if c.JWTVerifyCert == "" {
		return nil
	}
	// What is there and cannot be reached is no missing file: its own error tells why.
	if _, err := os.Stat(c.JWTVerifyCert); errors.Is(err, fs.ErrNotExist) || err != nil && isHex(c.JWTVerifyCert) {
		if tokens.IsEncodedEd25519Key([]byte(c.JWTVerifyCert)) {
			return nil
		}
		if isHex(c.JWTVerifyCert) {
			return []finding{mistake(key, fmt.Sprintf("has %d hex digits; an ed25519 public key has 64", len(c.JWTVerifyCert)), "write all "+hexDigits+" of the key")}
		}
		return []finding{mistake(key, fmt.Sprintf("%s does not exist, and it is not a hex ed25519 public key either", absolute(c.JWTVerifyCert)), "write the path of a file that exists, or "+hexDigits)}
	}
	text, problem := readable(key, c.JWTVerifyCert)
	if problem != nil {
		return asList(problem)
	}
	if block, _ := pem.Decode(text); block != nil {
		if _, err := jwt.ParseRSAPublicKeyFromPEM(text); err != nil {
			return []finding{mistake(key, absolute(c.JWTVerifyCert)+" holds neither an RSA public key nor a certificate of one", "name the file with the public half of the key that signs provisioning.jwt")}
		}
		return nil
	}
	return hexFile(key, c.JWTVerifyCert, text, "public key")
}

// hexFile holds that a file is one hex encoded ed25519 key or seed.
func hexFile(key, path string, text []byte, what string) []finding {
	text = bytes.TrimSpace(text)
	switch {
	case tokens.IsEncodedEd25519Key(text):
		return nil
	case isHex(string(text)):
		return []finding{mistake(key, fmt.Sprintf("%s holds %d hex digits; an ed25519 %s has 64", absolute(path), len(text), what), "put the whole "+what+" into it")}
	}
	return []finding{mistake(key, fmt.Sprintf("%s holds no ed25519 %s", absolute(path), what), "put the "+what+" into it as "+hexDigits)}
}

func isHex(text string) bool {
	_, err := hex.DecodeString(text)
	return text != "" && (err == nil || err == hex.ErrLength)
}

// checkSigningKey holds that key and token of ed25519 can be read and belong
// together. When they do not, everything is accepted until the server's next
// start, which the broker then refuses.
func checkSigningKey(c *Config) []finding {
	if !c.Features.ED25519 || c.JWTSigningKey == "" {
		return nil
	}
	text, problem := readable("jwt_signing_key", c.JWTSigningKey)
	if problem != nil {
		return append(asList(problem), checkSigningToken(c, nil)...)
	}
	found := append(checkAccess("jwt_signing_key", c.JWTSigningKey), hexFile("jwt_signing_key", c.JWTSigningKey, text, "seed")...)
	var public ed25519.PublicKey
	if seed, err := hex.DecodeString(string(bytes.TrimSpace(text))); err == nil && len(seed) == ed25519.SeedSize {
		public = ed25519.NewKeyFromSeed(seed).Public().(ed25519.PublicKey)
	}
	return append(found, checkSigningToken(c, public)...)
}

func checkSigningToken(c *Config, public ed25519.PublicKey) []finding {
	const key = "jwt_signing_token"
	if c.JWTSigningToken == "" {
		return checkIssuer(c, public)
	}
	text, problem := readable(key, c.JWTSigningToken)
	if problem != nil {
		return asList(problem)
	}
	found := checkAccess(key, c.JWTSigningToken)
	claims, err := tokens.ParseClientIDTokenUnverified(string(bytes.TrimSpace(text)))
	if err != nil {
		return append(found, mistake(key, absolute(c.JWTSigningToken)+" holds no client token", "name the JWT that belongs to jwt_signing_key"))
	}
	if claims.TrustChainSignature == "" {
		found = append(found, mistake(key, absolute(c.JWTSigningToken)+" has no trust chain signature (claim tcs): no server JWT can be issued with it", "have the token made with the Organization Issuer's data in it"))
	}
	if claims.IsExpired() {
		found = append(found, warning(key, absolute(c.JWTSigningToken)+" expired on "+claims.ExpireTime().UTC().Format("2006-01-02"), "have a new one made"))
	}
	if public != nil && claims.PublicKey != "" && claims.PublicKey != hex.EncodeToString(public) {
		found = append(found, mistake(key, "belongs to another key than jwt_signing_key: the broker would refuse every server after its restart", "name the token and the seed of the same provisioner"))
	}
	return found
}

// checkIssuer knows that without a token the signing key must be the
// Organization Issuer's own, which is the key that verifies provisioning.jwt.
func checkIssuer(c *Config, public ed25519.PublicKey) []finding {
	if public == nil || !tokens.IsEncodedEd25519Key([]byte(c.JWTVerifyCert)) || c.JWTVerifyCert == hex.EncodeToString(public) {
		return nil
	}
	return []finding{warning("jwt_signing_token", "is missing, and jwt_signing_key is not the Organization Issuer's: servers would be provisioned and then refused by the broker (Authorization Violation)", "name the provisioner's own JWT, which carries the issuer's chain").because("jwt_signing_key")}
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
