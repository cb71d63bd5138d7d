package provision

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	"choria-provision/provision/trust"
)

// helperClaim is a claim of provisioning.jwt that the helper is told. always is
// its value when the token does not hold it; empty leaves it out.
type helperClaim struct{ name, always string }

// helperClaimTable lists the claims of tokens.ProvisioningClaims without the
// shared token (cht) and without the broker password of nodes in provisioning
// mode (chpwd). They are named one by one, so that a claim added to the tokens
// module reaches no helper unseen.
var helperClaimTable = []helperClaim{
	{"chs", "false"}, {"chu", ""}, {"chsrv", ""}, {"chpd", "false"}, {"chrd", ""}, {"chf", ""}, {"chusr", ""},
	{"extensions", "null"}, {"ou", `"choria"`}, {"v2", ""}, {"update", ""},
	{"purpose", `""`}, {"tcs", ""}, {"public_key", ""}, {"issexp", ""},
	{"iss", ""}, {"sub", ""}, {"aud", ""}, {"exp", ""}, {"nbf", ""}, {"iat", ""}, {"jti", ""},
}

// helperClaims returns what the helper is told of a token whose signature was
// verified: an object of its claims, each value as it is written there, since
// large numbers and decimals do not survive decoding. Errors unwrap to trust.ErrJWT.
func helperClaims(token string) (json.RawMessage, error) {
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

// selectClaims is a token's payload with the claims of the table only.
func selectClaims(payload []byte) (json.RawMessage, error) {
	written, err := writtenClaims(payload)
	if err != nil {
		return nil, err
	}
	var claims bytes.Buffer
	for _, claim := range helperClaimTable {
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

// writtenClaims maps the known claims of a payload to their text. Letter case
// does not matter, as to the tokens module.
func writtenClaims(payload []byte) (map[string]string, error) {
	known := map[string]bool{}
	for _, claim := range helperClaimTable {
		known[claim.name] = true
	}
	doc := document{payload}
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
