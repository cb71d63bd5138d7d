package trust

import (
	"crypto"
	"crypto/rsa"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/choria-io/tokens"
	gojwt "github.com/golang-jwt/jwt/v5"
)

const jwtLimit = 64 << 10 // bytes; real ones are below 2 KiB

// jwtLeeway is how far the clock of the host that signs tokens may differ from
// ours: a token is valid that much before its time and after it.
const jwtLeeway = time.Minute

// VerifyJWT returns the claims of a node's provisioning.jwt if the site's key
// signed it and it is valid now. verify is the setting jwt_verify_cert, which
// ReadVerifyKey reads anew for each token: a key that was replaced or withdrawn
// counts at once. Errors unwrap to ErrJWT, ErrJWTExpired, ErrJWTTooEarly or
// ErrVerifyKey.
func VerifyJWT(text, verify string) (*tokens.ProvisioningClaims, error) {
	if len(text) > jwtLimit {
		return nil, fmt.Errorf("%w: it has %d bytes, at most %d are read", ErrJWT, len(text), jwtLimit)
	}
	key, err := ReadVerifyKey(verify)
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

// relativeTo formats a time and its distance from now.
func relativeTo(at time.Time) string {
	stamp := at.UTC().Format(time.RFC3339)
	if distance := time.Since(at).Round(time.Second); distance >= 0 {
		return fmt.Sprintf("at %s, %s ago", stamp, distance)
	}
	return fmt.Sprintf("not before %s, in %s", stamp, time.Until(at).Round(time.Second))
}

// keyFor returns key if it is of the kind that signs with method.
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

// checkIssuerExpiry rejects a token of a chain of trust that outlives its
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
