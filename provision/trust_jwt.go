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
	"time"

	"github.com/choria-io/tokens"
	gojwt "github.com/golang-jwt/jwt/v5"
	"golang.org/x/sys/unix"
)

const jwtLimit = 64 << 10 // bytes; real ones are below 2 KiB

// siteKey verifies the provisioning.jwt of nodes. It keeps the key it has read
// from a file until something was done to that file. The zero siteKey is ready
// for use, from many goroutines.
type siteKey struct {
	mu   sync.Mutex
	key  crypto.PublicKey // nil: none is kept
	path string           // where key was read
	file unix.Stat_t      // what was there then
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
	file, err := stateOf(verify)
	switch {
	case err == nil:
		return k.read(verify, file)
	case tokens.IsEncodedEd25519Key([]byte(verify)):
		return parseSiteKey([]byte(verify))
	default:
		return nil, fmt.Errorf("%q is neither a file nor a hex ed25519 public key: %w", verify, err)
	}
}

func (k *siteKey) read(path string, file unix.Stat_t) (crypto.PublicKey, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.key != nil && k.path == path && k.file == file {
		return k.key, nil
	}
	k.key = nil
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	key, err := parseSiteKey(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if time.Since(time.Unix(file.Ctim.Unix())) > coarsest {
		k.key, k.path, k.file = key, path, file
	}
	return key, nil
}

// coarsest is how far apart two changes of a file may be and yet have the same
// time: some file systems count in steps as long as this.
const coarsest = 2 * time.Second

// stateOf is what is at path, and another one after whatever is done to it but
// reading: its ctime cannot be set back.
func stateOf(path string) (unix.Stat_t, error) {
	for {
		var file unix.Stat_t
		err := unix.Stat(path, &file)
		if !errors.Is(err, unix.EINTR) {
			file.Atim = unix.Timespec{}
			return file, err
		}
	}
}

func parseSiteKey(text []byte) (crypto.PublicKey, error) {
	text = bytes.TrimSpace(text)
	if !tokens.IsEncodedEd25519Key(text) {
		return gojwt.ParseRSAPublicKeyFromPEM(text)
	}
	key, err := hex.DecodeString(string(text))
	return ed25519.PublicKey(key), err
}
