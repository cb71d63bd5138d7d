// Package trust verifies the credentials that a node presents and issues those
// that it receives: provisioning JWT, ed25519 key, certificate request, server
// JWT and private key. It knows key files and formats; it knows neither the
// sequence of steps nor the helper, and it makes no connection.
package trust

import "errors"

// The causes that an operator treats differently. Every error of this package
// unwraps to one of them, except where a function states otherwise.
var (
	ErrJWT          = errors.New("provisioning.jwt is not from this site")
	ErrJWTExpired   = errors.New("provisioning.jwt has expired")
	ErrJWTTooEarly  = errors.New("provisioning.jwt is not valid yet")
	ErrVerifyKey    = errors.New("the key that verifies provisioning.jwt cannot be used")
	ErrKeyProof     = errors.New("the node did not prove its key")
	ErrCSR          = errors.New("the certificate request is not acceptable")
	ErrSigning      = errors.New("the server JWT could not be issued")
	ErrKeyInTransit = errors.New("the private key could not be encrypted for the node")
)

// The configuration keys of a Choria server that decide which credentials it
// uses and which issuers it trusts.
const (
	ProviderKey = "plugin.security.provider"
	IssuersKey  = "plugin.security.issuer.names"
	SignersKey  = "plugin.security.choria.trusted_signers"
)

// IssuerKey returns the configuration key of an issuer's public key.
func IssuerKey(issuer string) string { return "plugin.security.issuer." + issuer + ".public" }
