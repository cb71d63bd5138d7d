package provision

import (
	"crypto/ed25519"
	"encoding/hex"
	"errors"
	"fmt"

	"filippo.io/edwards25519"
	wire "github.com/choria-io/go-choria/providers/agent/mcorpc/golang/provision"
)

const ecdhLength = 32 // bytes of a curve 25519 public key

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
	if err := refuseSmallOrder(key); err != nil {
		return nil, fmt.Errorf("%w: its public key %w", ErrKeyProof, err)
	}
	if !ed25519.Verify(key, []byte(nonce), signature) {
		return nil, fmt.Errorf("%w: the signature of our nonce is not by this key", ErrKeyProof)
	}
	return key, nil
}

// refuseSmallOrder refuses the few points of the curve for which anybody can make
// signatures; crypto/ed25519 accepts them.
func refuseSmallOrder(key []byte) error {
	point, err := new(edwards25519.Point).SetBytes(key)
	if err != nil {
		return fmt.Errorf("is no point of the curve: %w", err)
	}
	if new(edwards25519.Point).MultByCofactor(point).Equal(edwards25519.NewIdentityPoint()) == 1 {
		return errors.New("is a point of small order, for which anybody can sign")
	}
	return nil
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
