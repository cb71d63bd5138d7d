package provision

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/choria-io/go-choria/choria"
)

// transitBlock is the PEM type that a node's agent gives every private key it
// receives.
const transitBlock = "RSA PRIVATE KEY"

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
	if key, err := parsePrivateKey(text); err == nil {
		if key, ok := key.(*rsa.PrivateKey); ok {
			return key, nil
		}
	}
	return nil, fmt.Errorf("jwt_signing_key: %s is neither an ed25519 seed of %d hex digits nor an RSA key in PEM", file, hex.EncodedLen(ed25519.SeedSize))
}

// encryptKey encrypts a PEM private key so that only the node which holds the
// private half of nodeECDHHex can read it, and returns it with our half in hex.
// The cipher, AES-256 in a PEM block, is what go-choria's agent can read. RSA
// keys travel as PKCS #1, since the node labels whatever comes as such. Errors
// unwrap to ErrKeyInTransit.
func encryptKey(keyPEM, nodeECDHHex string) (encryptedPEM, ourECDHHex string, err error) {
	encryptedPEM, ourECDHHex, err = encryptFor(keyPEM, nodeECDHHex)
	if err != nil {
		return "", "", fmt.Errorf("%w: %w", ErrKeyInTransit, err)
	}
	return encryptedPEM, ourECDHHex, nil
}

func encryptFor(keyPEM, nodeECDHHex string) (encryptedPEM, ourECDHHex string, err error) {
	theirs, err := parseNodeECDH(nodeECDHHex)
	if err != nil {
		return "", "", err
	}
	der, err := transitBytes(keyPEM)
	if err != nil {
		return "", "", fmt.Errorf("the helper's key: %w", err)
	}
	private, public, err := choria.ECDHKeyPair()
	if err != nil {
		return "", "", fmt.Errorf("making an ECDH key: %w", err)
	}
	secret, err := choria.ECDHSharedSecret(private, theirs)
	if err != nil {
		return "", "", fmt.Errorf("the node's ECDH public key is not usable: %w", err)
	}
	//lint:ignore SA1019 deprecated, and the only form the node can read
	block, err := x509.EncryptPEMBlock(rand.Reader, transitBlock, der, secret, x509.PEMCipherAES256)
	if err != nil {
		return "", "", err
	}
	return string(pem.EncodeToMemory(block)), hex.EncodeToString(public), nil
}

func transitBytes(keyPEM string) ([]byte, error) {
	key, err := parsePrivateKey(keyPEM)
	if err != nil {
		return nil, err
	}
	if key, ok := key.(*rsa.PrivateKey); ok {
		return x509.MarshalPKCS1PrivateKey(key), nil
	}
	block, _ := pem.Decode([]byte(keyPEM))
	return block.Bytes, nil
}
