package provision

import (
	"bytes"
	"crypto"
	"crypto/ed25519"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/choria-io/tokens"
	gojwt "github.com/golang-jwt/jwt/v5"
)

const jwtLimit = 64 << 10 // bytes; real ones are below 2 KiB

// siteKey verifies the provisioning.jwt of nodes. It keeps the key it has read
// from a file until that file is another one. The zero siteKey is ready for
// use, from many goroutines.
type siteKey struct {
	mu   sync.Mutex
	key  crypto.PublicKey // nil: not read yet
	path string           // where key was read
	file os.FileInfo      // what was there then
}

// claims returns what a node's provisioning.jwt says when it was signed with
// the site's key. verify names a file that holds an RSA certificate, an RSA
// public key or a hex ed25519 public key; what is no file is itself a hex
// ed25519 public key. Errors unwrap to ErrJWT.
func (k *siteKey) claims(text, verify string) (*tokens.ProvisioningClaims, error) {
	if len(text) > jwtLimit {
		return nil, fmt.Errorf("%w: it has %d bytes, at most %d are read", ErrJWT, len(text), jwtLimit)
	}
	key, err := k.named(verify)
	if err != nil {
		return nil, fmt.Errorf("%w: verifying it with jwt_verify_cert: %w", ErrJWT, err)
	}
	claims, err := tokens.ParseProvisioningToken(strings.TrimSpace(text), key)
	if err != nil {
		return nil, fmt.Errorf("%w: verifying it with jwt_verify_cert: %w", ErrJWT, err)
	}
	return claims, nil
}

func (k *siteKey) named(verify string) (crypto.PublicKey, error) {
	if verify == "" {
		return nil, errors.New("jwt_verify_cert is not set")
	}
	file, err := os.Stat(verify)
	switch {
	case err == nil:
		return k.read(verify, file)
	case tokens.IsEncodedEd25519Key([]byte(verify)):
		return parseSiteKey([]byte(verify))
	default:
		return nil, fmt.Errorf("%q is neither a file nor a hex ed25519 public key", verify)
	}
}

func (k *siteKey) read(path string, file os.FileInfo) (crypto.PublicKey, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.key != nil && k.path == path && sameContent(k.file, file) {
		return k.key, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	key, err := parseSiteKey(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	k.key, k.path, k.file = key, path, file
	return key, nil
}

// sameContent takes files that nobody replaced or wrote to for the same.
func sameContent(a, b os.FileInfo) bool {
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

func parseSiteKey(text []byte) (crypto.PublicKey, error) {
	text = bytes.TrimSpace(text)
	if !tokens.IsEncodedEd25519Key(text) {
		return gojwt.ParseRSAPublicKeyFromPEM(text)
	}
	key, err := hex.DecodeString(string(text))
	return ed25519.PublicKey(key), err
}
