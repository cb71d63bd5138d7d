package config

import (
	"crypto"
	"crypto/ed25519"
	"errors"

	"github.com/choria-io/tokens"
)

// Keys are the readers of key files that a run uses. The checks call the same
// ones, so that a file is accepted by both or by neither. The commands pass
// those of package trust, which imports this package. Each returns a *FileFault
// when the file cannot be used.
type Keys struct {
	// VerifyKey reads jwt_verify_cert: a file, or the key itself in hex.
	VerifyKey func(setting string) (crypto.PublicKey, error)
	// SigningKey reads the file of jwt_signing_key.
	SigningKey func(file string) (crypto.Signer, error)
	// SigningToken reads the file of jwt_signing_token. A token that does not
	// belong to signer is refused; a nil signer is not compared. An expired one
	// is accepted: the caller decides.
	SigningToken func(file string, signer crypto.Signer) (*tokens.ClientIDClaims, error)
}

// FileFault states why a file or a setting cannot be used, and what to do.
type FileFault struct {
	Text string // names the file
	Hint string
}

// Error returns the text without the hint.
func (f *FileFault) Error() string { return f.Text }

// ReadKeyFile returns the content of a file with a key, certificate or token. It
// refuses everything but a regular file of moderate size without byte order
// mark, and never waits, as opening a named pipe would. Its errors are of type
// *FileFault.
func ReadKeyFile(path string) ([]byte, error) {
	text, problem := readKeyFile("", path)
	if problem != nil {
		return nil, &FileFault{Text: problem.Text, Hint: problem.Remedy}
	}
	return text, nil
}

// faultAt returns the finding for a reader's error.
func faultAt(key string, err error) finding {
	if fault, ok := errors.AsType[*FileFault](err); ok {
		return mistake(key, fault.Text, fault.Hint)
	}
	return mistake(key, "cannot be used: "+err.Error(), "name another file")
}

// siteKeys are the public halves of the keys that a configuration names.
type siteKeys struct {
	issuer ed25519.PublicKey // of the Organization Issuer; nil when jwt_verify_cert is RSA
	signer crypto.PublicKey  // of jwt_signing_key
}

// signerIs reports whether jwt_signing_key is the private half of public.
func (k siteKeys) signerIs(public crypto.PublicKey) bool {
	signer, ok := k.signer.(ed25519.PublicKey)
	return ok && signer.Equal(public)
}
