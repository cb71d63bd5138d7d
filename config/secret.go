package config

import (
	"encoding/json"
	"fmt"
	"os"
)

// Redacted stands in every output for a text that must not be shown.
const Redacted = "****"

// Secret is a text that must not be shown. It prints as **** through every fmt
// verb and every encoder; only Reveal gives it away. One that came from a file
// is read again at each use, so that a rotated secret is picked up.
type Secret struct {
	value string
	file  string
}

// NewSecret holds a secret that stands in the configuration itself.
func NewSecret(value string) Secret { return Secret{value: value} }

// NewSecretFile names the file that holds the secret.
func NewSecretFile(path string) Secret { return Secret{file: path} }

// IsSet reports whether there is a secret at all.
func (s Secret) IsSet() bool { return s.value != "" || s.file != "" }

// Reveal returns the secret's text. A byte order mark before a file's and line
// ends behind it do not count.
func (s Secret) Reveal() (string, error) {
	if s.file == "" {
		return s.value, nil
	}
	text, err := os.ReadFile(s.file)
	if err != nil {
		return "", fmt.Errorf("reading the secret: %w", err)
	}
	return secretText(text), nil
}

// String is **** for a secret that is set and empty for one that is not.
func (s Secret) String() string {
	if s.IsSet() {
		return Redacted
	}
	return ""
}

// Format keeps every fmt verb, %#v and %+v included, from showing the fields.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(s.String())) }

// MarshalText keeps encoders from showing the fields.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// masked is h with its values hidden.
func (h Headers) masked() map[string]string {
	shown := make(map[string]string, len(h))
	for name := range h {
		shown[name] = Redacted
	}
	return shown
}

// Format keeps every fmt verb from showing the values.
func (h Headers) Format(f fmt.State, _ rune) { fmt.Fprint(f, h.masked()) }

// MarshalJSON keeps the JSON encoder from showing the values.
func (h Headers) MarshalJSON() ([]byte, error) { return json.Marshal(h.masked()) }

// MarshalYAML keeps the YAML encoder from showing the values.
func (h Headers) MarshalYAML() (any, error) { return h.masked(), nil }
