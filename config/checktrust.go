package config

import (
	"bytes"
	"crypto"
	"crypto/ed25519"
	"crypto/rsa"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"strings"

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
	text, problem := readKeyFile(key, c.JWTVerifyCert)
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
	return text != "" && (err == nil || errors.Is(err, hex.ErrLength))
}

// signingKey returns the private key in the text of jwt_signing_key: an ed25519
// seed in hex, or an RSA key in PEM; nil when it is neither.
func signingKey(text []byte) crypto.Signer {
	text = bytes.TrimSpace(text)
	if seed, err := hex.DecodeString(string(text)); err == nil && len(seed) == ed25519.SeedSize {
		return ed25519.NewKeyFromSeed(seed)
	}
	if key, err := jwt.ParseRSAPrivateKeyFromPEM(text); err == nil {
		return key
	}
	return nil
}

// checkSigningKey holds that key and token of ed25519 can be read and belong
// together. When they do not, everything is accepted until the server's next
// start, which the broker then refuses.
func checkSigningKey(c *Config) []finding {
	const key = "jwt_signing_key"
	if !c.Features.ED25519 || c.JWTSigningKey == "" {
		return nil
	}
	text, problem := readKeyFile(key, c.JWTSigningKey)
	if problem != nil {
		return append(asList(problem), checkSigningToken(c, nil)...)
	}
	found := checkAccess(key, c.JWTSigningKey)
	switch private := signingKey(text).(type) {
	case ed25519.PrivateKey:
		return append(found, checkSigningToken(c, private.Public().(ed25519.PublicKey))...)
	case *rsa.PrivateKey:
		return append(found, checkRSASigner(c)...)
	}
	found = append(found, checkNoSigningKey(c.JWTSigningKey, text)...)
	return append(found, checkSigningToken(c, nil)...)
}

// checkNoSigningKey says what a file holds in place of a signing key.
func checkNoSigningKey(path string, text []byte) []finding {
	const key = "jwt_signing_key"
	block, _ := pem.Decode(text)
	switch {
	case block == nil:
		return hexFile(key, path, text, "seed")
	case isEncrypted(block):
		return []finding{mistake(key, absolute(path)+" is encrypted", "store the key without a passphrase, readable by this user alone")}
	}
	return []finding{mistake(key, fmt.Sprintf("%s holds neither an ed25519 seed nor an RSA private key (PEM type %q)", absolute(path), block.Type), "name the file with the seed as "+hexDigits+", or with an RSA private key in PEM")}
}

// checkRSASigner knows that an RSA key signs server JWTs for brokers that have
// its public key in plugin.choria.network.server_signer_cert. An Organization
// Issuer, its chain included, is always ed25519.
func checkRSASigner(c *Config) []finding {
	switch {
	case c.JWTSigningToken != "":
		return []finding{mistake("jwt_signing_token", "needs an ed25519 key, and jwt_signing_key is an RSA key: no server JWT can be issued", "name the ed25519 seed that belongs to the token, or take the token out when the broker trusts the RSA key itself")}
	case tokens.IsEncodedEd25519Key([]byte(c.JWTVerifyCert)):
		return []finding{warning("jwt_signing_key", "is an RSA key, and jwt_verify_cert an Organization Issuer's: that organization's brokers would refuse every server (Authorization Violation)", "name the provisioner's ed25519 seed, and its JWT as jwt_signing_token")}
	}
	return nil
}

func checkSigningToken(c *Config, public ed25519.PublicKey) []finding {
	const key = "jwt_signing_token"
	if c.JWTSigningToken == "" {
		return checkIssuer(c, public)
	}
	text, problem := readKeyFile(key, c.JWTSigningToken)
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

// isEncrypted reports whether a PEM block is a private key behind a passphrase.
func isEncrypted(block *pem.Block) bool {
	return block.Type == "ENCRYPTED PRIVATE KEY" || strings.Contains(block.Headers["Proc-Type"], "ENCRYPTED")
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
