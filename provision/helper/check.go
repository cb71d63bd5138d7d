package helper

import (
	"bufio"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"unicode"

	"choria-provision/config"
)

// CheckInput holds what an answer is checked against.
type CheckInput struct {
	Identity string
	Config   *config.Config
	Valid    func(identity string) bool // whether a node can have this identity
	CSR      *x509.CertificateRequest   // nil without pki, and in a dry run
	ED25519  ed25519.PublicKey          // nil without ed25519, and in a dry run
	SSLDir   string                     // where the node said it keeps its credentials, empty when it did not

	UpgradeOnly bool // the upgrade ends the sequence: nothing else in the answer is used
}

// problems collects what makes an answer unusable, and what is only doubtful.
type problems struct{ errors, warnings []string }

func (f *problems) errorf(format string, args ...any) {
	f.errors = append(f.errors, fmt.Sprintf(format, args...))
}

func (f *problems) warn(format string, args ...any) {
	f.warnings = append(f.warnings, fmt.Sprintf(format, args...))
}

// answerChecks lists the checks; each reports all that it finds.
var answerChecks = []func(Answer, CheckInput, *problems){
	checkLines, checkIdentity, checkProvisioningOff, checkAuthorization, checkProvider,
	checkProviderUse, checkCertificates, checkPolicies, checkClaims, checkUpgrade,
}

// Check finds what the node would accept silently and fail on later: lines that
// its parser drops, provisioning left on, credentials that do not fit, an answer
// for another node. The error states all of them and unwraps to ErrAnswer; what
// may be intended is a warning. Answers that defer or shut down configure nothing
// and are not checked; if the upgrade ends the sequence, only that is.
func (a Answer) Check(c CheckInput) (warnings []string, err error) {
	if a.Defer || a.Shutdown {
		return nil, nil
	}
	var f problems
	checks := answerChecks
	if c.UpgradeOnly {
		checks = []func(Answer, CheckInput, *problems){checkUpgrade}
	}
	for _, check := range checks {
		check(a, c, &f)
	}
	if len(f.errors) > 0 {
		err = fmt.Errorf("%w: %s", ErrAnswer, strings.Join(f.errors, "; "))
	}
	return f.warnings, err
}

// checkLines refuses what does not survive the node's file: the node writes lines
// of key=value, and go-choria's config parses them.
func checkLines(a Answer, _ CheckInput, f *problems) {
	if len(a.Configuration) == 0 {
		f.errorf("its configuration is empty")
	}
	for _, key := range slices.Sorted(maps.Keys(a.Configuration)) {
		value := a.Configuration[key]
		switch {
		case key == "" || strings.HasPrefix(key, "#") || strings.ContainsFunc(key, notInKey):
			f.errorf("configuration: the key %q cannot be written: it is empty, starts with #, or holds =, blanks or control characters", key)
		case strings.ContainsFunc(value, notInValue):
			f.errorf("configuration: the value of %s holds a line end or another control character, which would add settings", key)
		case len(key)+len(value)+1 >= bufio.MaxScanTokenSize:
			f.errorf("configuration: the value of %s is too long: the node stops reading at lines of %d bytes", key, bufio.MaxScanTokenSize)
		case strings.TrimSpace(value) == "":
			f.warn("configuration: %s has no value: the node passes over it", key)
		}
	}
}

func notInKey(r rune) bool {
	return r == '=' || unicode.IsSpace(r) || unicode.IsControl(r)
}

func notInValue(r rune) bool { return r != '\t' && unicode.IsControl(r) }

// identity is the node's identity after its restart: the configured one, or else
// the present one, which is its host name.
func (a Answer) identity(c CheckInput) string {
	if named := a.Setting("identity"); named != "" {
		return named
	}
	return c.Identity
}

// checkIdentity leaves the new identity to the site, unless a credential in the
// same answer is bound to the present one; checkLeaf compares the certificate.
func checkIdentity(a Answer, c CheckInput, f *problems) {
	switch named := a.identity(c); {
	case named == c.Identity:
	case !c.Valid(named):
		f.errorf("configuration: identity is %q, which no node can be named", named)
	case c.Config.Features.ED25519:
		f.errorf("configuration: identity is %q, and the server JWT that comes with it is issued to %q: the node would be refused under the new name", named, c.Identity)
	default:
		f.warn("configuration: identity is %q: the node, now %q, comes back under that name", named, c.Identity)
	}
}

const provisionKey = "plugin.choria.server.provision"

func checkProvisioningOff(a Answer, _ CheckInput, f *problems) {
	switch {
	case a.enabled(provisionKey):
		f.errorf("configuration: %s is %q: the node would refuse to restart; set it to false", provisionKey, a.Setting(provisionKey))
	case !a.isSet(provisionKey):
		f.warn("configuration: %s is not set: the node may return to provisioning for ever; set it to false", provisionKey)
	}
}

const (
	authorizationKey = "rpcauthorization"
	authorizerKey    = "rpcauthprovider"
)

// checkAuthorization warns of a node that will allow nothing: authorization is on
// by default and without policies denies every request, discovery included.
func checkAuthorization(a Answer, _ CheckInput, f *problems) {
	if len(a.Configuration) == 0 || !a.enabled(authorizationKey) {
		return
	}
	switch provider := strings.ToLower(a.Setting(authorizerKey)); {
	case provider != "rego_policy" && len(a.ActionPolicies) == 0 && len(a.OPAPolicies) > 0:
		f.warn("opa_policies: the node does not read them, since %s is %s", authorizerKey, provider)
	case provider == "rego_policy" && len(a.OPAPolicies) == 0 && len(a.ActionPolicies) > 0:
		f.warn("action_policies: the node does not read them, since %s is %s", authorizerKey, provider)
	case len(a.ActionPolicies)+len(a.OPAPolicies) > 0 || a.isSet(authorizerKey) || a.enabled("plugin.actionpolicy.allow_unconfigured"):
	default:
		f.warn("configuration: %s is on (its default) and the answer brings no policies: unless the node has some, it will allow no request", authorizationKey)
	}
}

func checkPolicies(a Answer, _ CheckInput, f *problems) {
	for _, kind := range []struct {
		key, extension string
		policies       map[string]string
	}{
		{"action_policies", ".policy", a.ActionPolicies},
		{"opa_policies", ".rego", a.OPAPolicies},
	} {
		for _, name := range slices.Sorted(maps.Keys(kind.policies)) {
			switch {
			case path.Ext(name) != kind.extension:
				f.errorf("%s: %q does not end in %s: the node refuses it", kind.key, name, kind.extension)
			case strings.ContainsAny(name, `/\`) || strings.ContainsFunc(name, unicode.IsControl):
				f.errorf("%s: %q is no plain file name", kind.key, name)
			case kind.policies[name] == "":
				f.warn("%s: %q is empty: the node does not write it", kind.key, name)
			}
		}
	}
}

var (
	// knownClaims are the names in server_claims that count when a token is issued.
	knownClaims = []string{"collectives", "exp", "ou", "permissions", "pub_subjects"}
	// ownClaims are those that an encoded tokens.ServerClaims contains besides.
	ownClaims = []string{"aud", "iat", "identity", "issexp", "iss", "jti", "nbf", "public_key", "purpose", "sub", "tcs"}
)

func checkClaims(a Answer, c CheckInput, f *problems) {
	if a.ServerClaims == nil {
		return
	}
	if !c.Config.Features.ED25519 {
		f.warn("server_claims: no server JWT is issued, since features.ed25519 is off")
	}
	if named := a.ServerClaims.ChoriaIdentity; named != "" && named != c.Identity {
		f.errorf("server_claims: identity is %q, this node is %q: the answer is another node's", named, c.Identity)
	}
	if key := a.ServerClaims.PublicKey; key != "" && c.ED25519 != nil && !strings.EqualFold(key, hex.EncodeToString(c.ED25519)) {
		f.errorf("server_claims: public_key is not this node's: the answer is another node's")
	}
	for _, claim := range a.Claims {
		if folded(claim, slices.Values(knownClaims)) == "" && folded(claim, slices.Values(ownClaims)) == "" {
			f.warn("server_claims: there is no claim %q; what counts is %s", claim, strings.Join(knownClaims, ", "))
		}
	}
}

func checkUpgrade(a Answer, c CheckInput, f *problems) {
	switch {
	case a.Upgrade == "":
	case !c.Config.Features.Upgrades:
		f.warn("upgrade: not to %s, since features.upgrades is off", a.Upgrade)
	case strings.ContainsFunc(a.Upgrade, func(r rune) bool { return unicode.IsControl(r) || unicode.IsSpace(r) }):
		f.errorf("upgrade: %q is no version", a.Upgrade)
	}
}
