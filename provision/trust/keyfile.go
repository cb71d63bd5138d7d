package trust

import (
	"bytes"
	"crypto"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/choria-io/tokens"
	gojwt "github.com/golang-jwt/jwt/v5"

	"choria-provision/config"
)

// minRSABitsInUse is the size below which crypto/rsa neither signs nor verifies.
const minRSABitsInUse = 1024

const hexDigits = "64 hex digits"

// Keys returns the readers of key files for the checks of a configuration.
func Keys() config.Keys {
	return config.Keys{VerifyKey: ReadVerifyKey, SigningKey: ReadSigningKey, SigningToken: ReadSigningToken}
}

// ReadVerifyKey returns the public key that verifies provisioning.jwt: an RSA or
// ed25519 key. setting names a file with an RSA certificate, an RSA public key or
// a hex ed25519 public key; if there is no such file, it is itself a hex ed25519
// public key. Its errors are of type *config.FileFault.
func ReadVerifyKey(setting string) (crypto.PublicKey, error) {
	text, err := verifyKeyText(setting)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(text)
	if block == nil {
		key, err := hexKey(setting, text, "public key")
		if err != nil {
			return nil, err
		}
		return ed25519.PublicKey(key), nil
	}
	key, err := gojwt.ParseRSAPublicKeyFromPEM(text)
	switch {
	case err != nil:
		return nil, fault("name the file with the public half of the key that signs provisioning.jwt",
			"%s holds neither an RSA public key nor a certificate of one", absolute(setting))
	case key.N.BitLen() < minRSABitsInUse:
		return nil, fault("have a longer key made", "%s holds an RSA key of %d bits; at least %d are needed", absolute(setting), key.N.BitLen(), minRSABitsInUse)
	}
	return key, nil
}

// verifyKeyText returns the text of the verify key: the file's, or setting. A
// file that exists and cannot be reached is not treated as missing, unless
// setting can be nothing but a key.
func verifyKeyText(setting string) ([]byte, error) {
	if setting == "" {
		return nil, fault("name the public key or certificate that verifies provisioning.jwt", "is not set")
	}
	_, err := os.Stat(setting)
	switch {
	case err == nil || !errors.Is(err, fs.ErrNotExist) && !isHex(setting):
		return config.ReadKeyFile(setting)
	case tokens.IsEncodedEd25519Key([]byte(setting)):
		return []byte(setting), nil
	case isHex(setting):
		return nil, fault("write all "+hexDigits+" of the key", "has %d hex digits; an ed25519 public key has 64", len(setting))
	default:
		return nil, fault("write the path of a file that exists, or "+hexDigits, "%s does not exist, and it is not a hex ed25519 public key either", absolute(setting))
	}
}

// TrustRoot returns the key that verifies provisioning.jwt in hex, "" for an
// empty setting: the public key itself, so that neither a moved file nor a
// renewed certificate changes it. Records hold its hash, so the encoding of each
// kind of file must never change.
func TrustRoot(setting string) (string, error) {
	if setting == "" {
		return "", nil
	}
	if _, err := ReadVerifyKey(setting); err != nil {
		return "", err
	}
	text, err := verifyKeyText(setting)
	if err != nil {
		return "", err
	}
	block, _ := pem.Decode(text)
	switch {
	case block == nil:
		return strings.ToLower(string(bytes.TrimSpace(text))), nil
	case block.Type != "CERTIFICATE":
		return hex.EncodeToString(block.Bytes), nil
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return "", fmt.Errorf("%s: %w", absolute(setting), err)
	}
	return hex.EncodeToString(certificate.RawSubjectPublicKeyInfo), nil
}

// ReadSigningKey returns the private key that signs server JWTs: an ed25519 seed
// in hex, as go-choria writes them, or an RSA key in PEM. Its errors are of type
// *config.FileFault and show nothing of the key.
func ReadSigningKey(file string) (crypto.Signer, error) {
	if file == "" {
		return nil, fault("name the file that holds the ed25519 seed which signs server JWTs", "is not set")
	}
	text, err := config.ReadKeyFile(file)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(text)
	if block == nil {
		seed, err := hexKey(file, text, "seed")
		if err != nil {
			return nil, err
		}
		return ed25519.NewKeyFromSeed(seed), nil
	}
	if isEncrypted(block) {
		return nil, fault("store the key without a passphrase, readable by this user alone", "%s is encrypted", absolute(file))
	}
	key, err := parsePrivateDER(block)
	rsaKey, isRSA := key.(*rsa.PrivateKey)
	switch {
	case err != nil || !isRSA:
		return nil, fault("name the file with the seed as "+hexDigits+", or with an RSA private key in PEM",
			"%s holds neither an ed25519 seed nor an RSA private key (PEM type %q)", absolute(file), block.Type)
	case rsaKey.N.BitLen() < minRSABitsInUse:
		return nil, fault("have a longer key made", "%s holds an RSA key of %d bits; at least %d are needed", absolute(file), rsaKey.N.BitLen(), minRSABitsInUse)
	}
	return rsaKey, nil
}

// ReadSigningToken returns the claims of the token that proves a chain of trust
// to signer, which must be ed25519; a nil signer is not compared. It accepts an
// expired token. Its errors are of type *config.FileFault.
func ReadSigningToken(file string, signer crypto.Signer) (*tokens.ClientIDClaims, error) {
	private, isEd25519 := signer.(ed25519.PrivateKey)
	if signer != nil && !isEd25519 {
		return nil, fault("name the ed25519 seed that belongs to the token, or take the token out when the broker trusts the RSA key itself",
			"needs an ed25519 key, and jwt_signing_key is an RSA key: no server JWT can be issued")
	}
	text, err := config.ReadKeyFile(file)
	if err != nil {
		return nil, err
	}
	claims, err := tokens.ParseClientIDTokenUnverified(string(bytes.TrimSpace(text)))
	switch {
	case err != nil:
		return nil, fault("name the JWT that belongs to jwt_signing_key", "%s holds no client token", absolute(file))
	case claims.TrustChainSignature == "":
		return nil, fault("have the token made with the Organization Issuer's data in it",
			"%s has no trust chain signature (claim tcs): no server JWT can be issued with it", absolute(file))
	case signer != nil && !strings.EqualFold(claims.PublicKey, hex.EncodeToString(private.Public().(ed25519.PublicKey))):
		return nil, fault("name the token and the seed of the same provisioner",
			"belongs to another key than jwt_signing_key: the broker would refuse every server after its restart")
	}
	if err := tryChain(claims); err != nil {
		return nil, fault("have the token made anew by the Organization Issuer", "%s cannot issue tokens: %v", absolute(file), err)
	}
	return claims, nil
}

// tryChain returns why no token can be issued with the data of issuer.
func tryChain(issuer *tokens.ClientIDClaims) error {
	var issued tokens.StandardClaims
	issued.ID = "trial"
	if err := issued.SetChainIssuer(issuer); err != nil {
		return err
	}
	_, err := issued.ChainIssuerData(issuer.TrustChainSignature)
	return err
}

// hexKey returns the 32 bytes of a hex ed25519 key or seed, the whole of text.
func hexKey(file string, text []byte, what string) ([]byte, error) {
	text = bytes.TrimSpace(text)
	switch {
	case tokens.IsEncodedEd25519Key(text):
		return hex.DecodeString(string(text))
	case isHex(string(text)):
		return nil, fault("put the whole "+what+" into it", "%s holds %d hex digits; an ed25519 %s has 64", absolute(file), len(text), what)
	}
	return nil, fault("put the "+what+" into it as "+hexDigits, "%s holds no ed25519 %s", absolute(file), what)
}

func isHex(text string) bool {
	_, err := hex.DecodeString(text)
	return text != "" && (err == nil || errors.Is(err, hex.ErrLength))
}

func fault(hint, format string, args ...any) *config.FileFault {
	return &config.FileFault{Text: fmt.Sprintf(format, args...), Hint: hint}
}

func absolute(path string) string {
	if full, err := filepath.Abs(path); err == nil {
		return full
	}
	return path
}

// ParsePrivateKey reads the first PEM block of a text as a private key: PKCS #1,
// PKCS #8 or SEC 1. Its errors show nothing of the key.
func ParsePrivateKey(text string) (crypto.Signer, error) {
	block, _ := pem.Decode([]byte(text))
	switch {
	case block == nil:
		return nil, errors.New("it is no PEM block")
	case isEncrypted(block):
		return nil, errors.New("it is encrypted; answer the plain key, it is encrypted for the node on its way")
	}
	return parsePrivateDER(block)
}

// isEncrypted reports whether a PEM block is a private key with a passphrase.
func isEncrypted(block *pem.Block) bool {
	//lint:ignore SA1019 old, but what a site's openssl may have written
	return x509.IsEncryptedPEMBlock(block) || block.Type == "ENCRYPTED PRIVATE KEY"
}

func parsePrivateDER(block *pem.Block) (crypto.Signer, error) {
	if key, err := x509.ParsePKCS1PrivateKey(block.Bytes); err == nil {
		return key, nil
	}
	if key, err := x509.ParseECPrivateKey(block.Bytes); err == nil {
		return key, nil
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("it is a PEM block of type %q that holds no private key", block.Type)
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("it is a key that cannot sign (%T)", key)
	}
	return signer, nil
}
