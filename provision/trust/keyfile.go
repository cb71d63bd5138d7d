package trust

import (
	"bytes"
	"crypto"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/choria-io/tokens"
	gojwt "github.com/golang-jwt/jwt/v5"
)

// ReadVerifyKey returns the public key that verifies provisioning.jwt. verify
// names a file that holds an RSA certificate, an RSA public key or a hex ed25519
// public key; if there is no such file, it is itself a hex ed25519 public key.
func ReadVerifyKey(verify string) (crypto.PublicKey, error) {
	if verify == "" {
		return nil, errors.New("jwt_verify_cert is not set")
	}
	_, err := os.Stat(verify)
	switch {
	case err == nil:
		text, err := os.ReadFile(verify)
		if err != nil {
			return nil, err
		}
		key, err := parseVerifyKey(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", verify, err)
		}
		return key, nil
	case tokens.IsEncodedEd25519Key([]byte(verify)):
		return parseVerifyKey([]byte(verify))
	default:
		return nil, fmt.Errorf("%q is neither a file nor a hex ed25519 public key: %w", verify, err)
	}
}

func parseVerifyKey(text []byte) (crypto.PublicKey, error) {
	text = bytes.TrimSpace(text)
	if !tokens.IsEncodedEd25519Key(text) {
		return gojwt.ParseRSAPublicKeyFromPEM(text)
	}
	key, err := hex.DecodeString(string(text))
	return ed25519.PublicKey(key), err
}

// readSigningKey returns the private key in a file: an ed25519 seed in hex, as
// go-choria writes them, or an RSA key in PEM. Its errors show nothing of it.
func readSigningKey(file string) (any, error) {
	if file == "" {
		return nil, errors.New("jwt_signing_key is not set")
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("jwt_signing_key: %w", err)
	}
	text := strings.TrimSpace(string(content))
	if seed, err := hex.DecodeString(text); err == nil && len(seed) == ed25519.SeedSize {
		return ed25519.NewKeyFromSeed(seed), nil
	}
	if key, err := ParsePrivateKey(text); err == nil {
		if key, ok := key.(*rsa.PrivateKey); ok {
			return key, nil
		}
	}
	return nil, fmt.Errorf("jwt_signing_key: %s is neither an ed25519 seed of %d hex digits nor an RSA key in PEM", file, hex.EncodedLen(ed25519.SeedSize))
}

// ParsePrivateKey reads the first PEM block of a text as a private key, PKCS #1,
// PKCS #8 or SEC 1. Its errors show nothing of the key.
func ParsePrivateKey(text string) (crypto.Signer, error) {
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return nil, errors.New("it is no PEM block")
	}
	//lint:ignore SA1019 old, but what a site's openssl may have written
	if x509.IsEncryptedPEMBlock(block) || block.Type == "ENCRYPTED PRIVATE KEY" {
		return nil, errors.New("it is encrypted; answer the plain key, it is encrypted for the node on its way")
	}
	if key, err := x509.ParsePKCS1PrivateKey(block.Bytes); err == nil {
		return key, nil
	}
	if key, err := x509.ParseECPrivateKey(block.Bytes); err == nil {
		return key, nil
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("it is a PEM block of type %q that holds no private key", block.Type)
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("it is a key that cannot sign (%T)", key)
	}
	return signer, nil
}
