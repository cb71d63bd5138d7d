package trust

import (
	"crypto/ed25519"
	"encoding/hex"
	"errors"
	"fmt"

	"filippo.io/edwards25519"
	wire "github.com/choria-io/go-choria/providers/agent/mcorpc/golang/provision"
)

// VerifyKeyProof returns the ed25519 public key that a node generated, if the
// node signed nonce with it. Without the proof a node could present the key of
// another one. Key and signature are hex, the format of go-choria's gen25519
// action. Errors unwrap to ErrKeyProof.
func VerifyKeyProof(reply wire.ED25519Reply, nonce string) (ed25519.PublicKey, error) {
	if nonce == "" {
		return nil, fmt.Errorf("%w: there is no nonce to verify", ErrKeyProof)
	}
	key, err := ParsePublicKey(reply.PublicKey)
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

// ParsePublicKey decodes an ed25519 public key of 64 hex digits. Its errors
// continue a sentence about the key: "has 3 characters, want 64 hex digits".
func ParsePublicKey(text string) (ed25519.PublicKey, error) {
	return decodeHex(text, ed25519.PublicKeySize)
}

// refuseSmallOrder rejects the few points of the curve for which signatures can
// be made without a private key; crypto/ed25519 accepts them.
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

// decodeHex requires exactly size bytes. It checks the length before decoding,
// because crypto/ed25519 panics at keys of a wrong length.
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
