package helper

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	"choria-provision/provision/trust"
)

// Input is the JSON object that the helper reads from stdin: always with these
// keys, null when the step that fills them is off. Our token and keys and the
// helper's own path are not among them.
type Input struct {
	Identity  string          `json:"identity"`
	CSR       *InputCSR       `json:"csr"`            // with pki
	ED25519   *InputED25519   `json:"ed25519_pubkey"` // with ed25519
	Inventory string          `json:"inventory"`      // the rpcutil#inventory reply, JSON in a string
	JWT       json.RawMessage `json:"jwt"`            // with jwt: the verified claims, an object
}

// InputCSR holds the node's reply to choria_provision#gencsr: PEM texts and the
// directory of its credentials.
type InputCSR struct {
	CSR       string `json:"csr"`
	PublicKey string `json:"public_key"`
	SSLDir    string `json:"ssldir"`
}

// InputED25519 holds the node's reply to choria_provision#gen25519: hex texts and
// the directory of its seed.
type InputED25519 struct {
	PublicKey string `json:"public_key"`
	Directory string `json:"directory"`
	Signature string `json:"signature"`
}

// toldClaim is a claim of provisioning.jwt that the helper receives. always is its
// value if the token lacks it; empty omits it.
type toldClaim struct{ name, always string }

// toldClaims lists the claims of tokens.ProvisioningClaims except the shared token
// (cht) and the broker password of nodes in provisioning mode (chpwd). A claim
// that the tokens module adds reaches no helper until it is listed here.
var toldClaims = []toldClaim{
	{"chs", "false"}, {"chu", ""}, {"chsrv", ""}, {"chpd", "false"}, {"chrd", ""}, {"chf", ""}, {"chusr", ""},
	{"extensions", "null"}, {"ou", `"choria"`}, {"v2", ""}, {"update", ""},
	{"purpose", `""`}, {"tcs", ""}, {"public_key", ""}, {"issexp", ""},
	{"iss", ""}, {"sub", ""}, {"aud", ""}, {"exp", ""}, {"nbf", ""}, {"iat", ""}, {"jti", ""},
}

// SelectClaims returns the claims of a verified token that the helper receives, as
// an object. Each value stays as it is written in the token, because large numbers
// and decimals do not survive decoding. Errors unwrap to trust.ErrJWT.
func SelectClaims(token string) (json.RawMessage, error) {
	payload, err := payloadOf(token)
	if err == nil {
		payload, err = selectClaims(payload)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: its claims: %w", trust.ErrJWT, err)
	}
	return payload, nil
}

func payloadOf(token string) ([]byte, error) {
	parts := strings.Split(strings.TrimSpace(token), ".")
	if len(parts) != 3 {
		return nil, fmt.Errorf("it has %d parts, want 3", len(parts))
	}
	return base64.RawURLEncoding.DecodeString(parts[1])
}

// selectClaims returns a payload with only the claims of the table.
func selectClaims(payload []byte) (json.RawMessage, error) {
	written, err := writtenClaims(payload)
	if err != nil {
		return nil, err
	}
	var claims bytes.Buffer
	for _, claim := range toldClaims {
		value := written[claim.name]
		if value == "" {
			value = claim.always
		}
		if value == "" {
			continue
		}
		fmt.Fprintf(&claims, ",%q:%s", claim.name, value)
	}
	return append([]byte{'{'}, append(claims.Bytes()[1:], '}')...), nil
}

// writtenClaims maps the known claims of a payload to their text. It ignores letter
// case, as the tokens module does.
func writtenClaims(payload []byte) (map[string]string, error) {
	known := map[string]bool{}
	for _, claim := range toldClaims {
		known[claim.name] = true
	}
	doc := jsonText{payload}
	whole, err := doc.whole()
	if err != nil {
		return nil, err
	}
	members, err := doc.members("the payload", whole)
	if err != nil {
		return nil, err
	}
	written := map[string]string{}
	for _, m := range members {
		name := folded(m.name, maps.Keys(known))
		if name == "" || m.isNull() {
			continue
		}
		if _, twice := written[name]; twice {
			return nil, fmt.Errorf("it gives %q twice", name)
		}
		written[name] = string(m.raw)
	}
	return written, nil
}
