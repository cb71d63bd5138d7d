package installstate

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
)

// Fingerprint hashes exactly the bytes it is given: SHA-256, in 64 lower case
// hex digits. Give it the canonical JSON of what defines an installation, from
// before short-lived secrets are resolved.
func Fingerprint(canonical []byte) string {
	sum := sha256.Sum256(canonical)
	return hex.EncodeToString(sum[:])
}

func isFingerprint(s string) bool {
	return len(s) == 2*sha256.Size && strings.Trim(s, "0123456789abcdef") == ""
}

// Definition is what makes two installations of one machine the same or not;
// nothing in it rotates. A field that is added later must be omitted at its
// default, or every record written before would change hands.
type Definition struct {
	Site       string `json:"site"`
	Enrollment string `json:"enrollment"`           // how nodes get their credentials
	TrustRoot  string `json:"trust_root,omitempty"` // public: the key or certificate itself, never a path
}

// Canonical returns the definition's one JSON text.
func (d Definition) Canonical() ([]byte, error) {
	data, err := json.Marshal(d)
	if err != nil {
		return nil, fmt.Errorf("the installation's definition: %w", err)
	}
	return data, nil
}
