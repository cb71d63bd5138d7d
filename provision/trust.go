package provision

import (
	"crypto/ed25519"
	"encoding/hex"
	"fmt"
	"os"
	"strings"

	wire "github.com/choria-io/go-choria/providers/agent/mcorpc/golang/provision"
	"github.com/choria-io/tokens"
)

const (
	jwtLimit   = 64 << 10 // bytes; real ones are below 2 KiB
	ecdhLength = 32       // bytes of a curve 25519 public key
)

// verifyProvisioningJWT returns the claims of a node's provisioning.jwt when
// it was signed with the site's key. verify names a file that holds an RSA
// certificate, an RSA public key or a hex ed25519 public key; what is no file
// is itself a hex ed25519 public key. Errors unwrap to ErrJWT.
func verifyProvisioningJWT(text, verify string) (*tokens.ProvisioningClaims, error) {
	if len(text) > jwtLimit {
		return nil, fmt.Errorf("%w: it has %d bytes, at most %d are read", ErrJWT, len(text), jwtLimit)
	}
	claims, err := parseProvisioningJWT(strings.TrimSpace(text), verify)
	if err != nil {
		return nil, fmt.Errorf("%w: verifying it with jwt_verify_cert: %w", ErrJWT, err)
	}
	return claims, nil
}

func parseProvisioningJWT(text, verify string) (*tokens.ProvisioningClaims, error) {
	if verify == "" {
		return nil, fmt.Errorf("jwt_verify_cert is not set")
	}
	inFile := verify
	if _, err := os.Stat(verify); err == nil {
		content, err := os.ReadFile(verify)
		if err != nil {
			return nil, err
		}
		inFile = strings.TrimSpace(string(content))
	} else if !tokens.IsEncodedEd25519Key([]byte(verify)) {
		return nil, fmt.Errorf("%q is neither a file nor a hex ed25519 public key", verify)
	}
	if !tokens.IsEncodedEd25519Key([]byte(inFile)) {
		return tokens.ParseProvisioningTokenWithKeyfile(text, verify)
	}
	key, err := hex.DecodeString(inFile)
	if err != nil {
		return nil, err
	}
	return tokens.ParseProvisioningToken(text, ed25519.PublicKey(key))
}

// verifyKeyProof returns the ed25519 public key a node made, when the node
// signed our nonce with it: otherwise it could present another machine's key.
// Both are hex, as go-choria's gen25519 action sends them. Errors unwrap to
// ErrKeyProof.
func verifyKeyProof(reply wire.ED25519Reply, nonce string) (ed25519.PublicKey, error) {
	if nonce == "" {
		return nil, fmt.Errorf("%w: there is no nonce to verify", ErrKeyProof)
	}
	key, err := decodeHex(reply.PublicKey, ed25519.PublicKeySize)
	if err != nil {
		return nil, fmt.Errorf("%w: its public key %w", ErrKeyProof, err)
	}
	signature, err := decodeHex(reply.Signature, ed25519.SignatureSize)
	if err != nil {
		return nil, fmt.Errorf("%w: its signature %w", ErrKeyProof, err)
	}
	if !ed25519.Verify(key, []byte(nonce), signature) {
		return nil, fmt.Errorf("%w: the signature of our nonce is not by this key", ErrKeyProof)
	}
	return key, nil
}

// parseNodeECDH returns the 32 bytes of a node's ECDH public key, which the
// jwt action sends in hex.
func parseNodeECDH(text string) ([]byte, error) {
	key, err := decodeHex(text, ecdhLength)
	if err != nil {
		return nil, fmt.Errorf("the node's ECDH public key %w", err)
	}
	return key, nil
}

// decodeHex wants exactly size bytes: the length is known before anything is
// decoded, and crypto/ed25519 panics at keys of another one.
func decodeHex(text string, size int) ([]byte, error) {
	if len(text) != hex.EncodedLen(size) {
		return nil, fmt.Errorf("has %d characters, want %d hex digits", len(text), hex.EncodedLen(size))
	}
	value, err := hex.DecodeString(text)
	if err != nil {
		return nil, fmt.Errorf("is not hex: %w", err)
	}
	return value, nil
}
