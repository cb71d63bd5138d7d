package provision

import (
	"bytes"
	"crypto"
	"crypto/ed25519"
	"crypto/rsa"
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

// jwtLeeway is how far the clock of the host that signs tokens may differ from
// ours: a token counts that much before its time and after it.
const jwtLeeway = time.Minute

// claims returns what a node's provisioning.jwt says when it was signed with
// the site's key and is valid now. verify names a file that holds an RSA
// certificate, an RSA public key or a hex ed25519 public key; what is no file is
// itself a hex ed25519 public key. Errors unwrap to ErrJWT, ErrJWTExpired,
// ErrJWTTooEarly or ErrVerifyKey.
func (k *siteKey) claims(text, verify string) (*tokens.ProvisioningClaims, error) {
	if len(text) > jwtLimit {
		return nil, fmt.Errorf("%w: it has %d bytes, at most %d are read", ErrJWT, len(text), jwtLimit)
	}
	key, err := k.named(verify)
	if err != nil {
		return nil, fmt.Errorf("%w: jwt_verify_cert: %w", ErrVerifyKey, err)
	}
	claims := &tokens.ProvisioningClaims{}
	_, err = gojwt.ParseWithClaims(strings.TrimSpace(text), claims,
		func(t *gojwt.Token) (any, error) { return keyFor(t.Method, key) }, gojwt.WithLeeway(jwtLeeway))
	switch {
	case errors.Is(err, gojwt.ErrTokenExpired): // the signature was verified before
		return nil, fmt.Errorf("%w: %s", ErrJWTExpired, relativeTo(claims.ExpiresAt.Time))
	case errors.Is(err, gojwt.ErrTokenNotValidYet):
		return nil, fmt.Errorf("%w: %s", ErrJWTTooEarly, relativeTo(claims.NotBefore.Time))
	case err != nil:
		return nil, fmt.Errorf("%w: verifying it with jwt_verify_cert: %w", ErrJWT, err)
	case !tokens.IsProvisioningToken(claims.StandardClaims):
		return nil, fmt.Errorf("%w: not a provisioning token", ErrJWT)
	}
	if err := checkIssuerExpiry(claims.StandardClaims); err != nil {
		return nil, err
	}
	return claims, nil
}

// relativeTo is a time, and how far it is from ours.
func relativeTo(at time.Time) string {
	stamp := at.UTC().Format(time.RFC3339)
	if distance := time.Since(at).Round(time.Second); distance >= 0 {
		return fmt.Sprintf("at %s, %s ago", stamp, distance)
	}
	return fmt.Sprintf("not before %s, in %s", stamp, time.Until(at).Round(time.Second))
}

// keyFor returns the site's key when it is of the kind that signs with a method.
func keyFor(method gojwt.SigningMethod, key crypto.PublicKey) (crypto.PublicKey, error) {
	_, isRSA := key.(*rsa.PublicKey)
	switch method.(type) {
	case *gojwt.SigningMethodRSA:
		if isRSA {
			return key, nil
		}
		return nil, errors.New("an RSA key signed it, jwt_verify_cert is an ed25519 key")
	case *gojwt.SigningMethodEd25519:
		if !isRSA {
			return key, nil
		}
		return nil, errors.New("an ed25519 key signed it, jwt_verify_cert is an RSA key")
	}
	return nil, fmt.Errorf("the signing method %s is not accepted", method.Alg())
}

// checkIssuerExpiry holds that a token of a chain of trust does not outlive its
// issuer, as the tokens module does.
func checkIssuerExpiry(claims tokens.StandardClaims) error {
	switch {
	case claims.TrustChainSignature == "":
		return nil
	case !strings.HasPrefix(claims.Issuer, tokens.ChainIssuerPrefix) || claims.IssuerExpiresAt == nil:
		return fmt.Errorf("%w: it has a trust chain signature and does not say when its issuer expires", ErrJWT)
	case time.Since(claims.IssuerExpiresAt.Time) > jwtLeeway:
		return fmt.Errorf("%w: its issuer did, %s", ErrJWTExpired, relativeTo(claims.IssuerExpiresAt.Time))
	}
	return nil
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
