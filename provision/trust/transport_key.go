package trust

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"fmt"

	"github.com/choria-io/go-choria/choria"
)

// agentKeyBlock is the PEM type that a node's agent gives every private key it
// receives.
const agentKeyBlock = "RSA PRIVATE KEY"

const ecdhLength = 32 // bytes of a curve 25519 public key

// EncryptKey encrypts a PEM private key for the node that holds the private half
// of nodeECDHHex, and returns it with our public half in hex. The cipher,
// AES-256 in a PEM block, is the one that go-choria's agent reads. RSA keys are
// sent as PKCS #1, because the agent labels every key so. Errors unwrap to
// ErrKeyInTransit.
func EncryptKey(keyPEM, nodeECDHHex string) (encryptedPEM, ourECDHHex string, err error) {
	encryptedPEM, ourECDHHex, err = encryptForNode(keyPEM, nodeECDHHex)
	if err != nil {
		return "", "", fmt.Errorf("%w: %w", ErrKeyInTransit, err)
	}
	return encryptedPEM, ourECDHHex, nil
}

func encryptForNode(keyPEM, nodeECDHHex string) (encryptedPEM, ourECDHHex string, err error) {
	theirs, err := parseNodeECDH(nodeECDHHex)
	if err != nil {
		return "", "", err
	}
	der, err := keyBytes(keyPEM)
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
	block, err := x509.EncryptPEMBlock(rand.Reader, agentKeyBlock, der, secret, x509.PEMCipherAES256)
	if err != nil {
		return "", "", err
	}
	return string(pem.EncodeToMemory(block)), hex.EncodeToString(public), nil
}

// keyBytes returns the DER encoding that the node stores.
func keyBytes(keyPEM string) ([]byte, error) {
	key, err := ParsePrivateKey(keyPEM)
	if err != nil {
		return nil, err
	}
	if key, ok := key.(*rsa.PrivateKey); ok {
		return x509.MarshalPKCS1PrivateKey(key), nil
	}
	block, _ := pem.Decode([]byte(keyPEM))
	return block.Bytes, nil
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
