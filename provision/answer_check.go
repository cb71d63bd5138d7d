package provision

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
	"choria-provision/discovery"
)

// answerContext is what an answer is held against.
type answerContext struct {
	Identity string
	Config   *config.Config
	CSR      *x509.CertificateRequest // nil without pki, and in a dry run
	ED25519  ed25519.PublicKey        // nil without ed25519, and in a dry run
	SSLDir   string                   // where the node said it keeps its credentials, empty when it did not

	UpgradeOnly bool // the upgrade ends the sequence: nothing else in the answer is used
}

// findings are what is wrong with an answer, and what is only doubtful.
type findings struct{ wrong, doubtful []string }

func (f *findings) refuse(format string, args ...any) {
	f.wrong = append(f.wrong, fmt.Sprintf(format, args...))
}

func (f *findings) warn(format string, args ...any) {
	f.doubtful = append(f.doubtful, fmt.Sprintf(format, args...))
}

// answerChecks find all there is to find in one go.
var answerChecks = []func(Answer, answerContext, *findings){
	checkLines, checkIdentity, checkProvisioningOff, checkAuthorization, checkProvider,
	checkProviderUse, checkCertificates, checkPolicies, checkClaims, checkUpgrade,
}

// check finds what the node would accept without a word and stumble over later:
// lines its parser drops, provisioning left on, credentials that do not fit, an
// answer for another node. The error names all of it and unwraps to
// ErrHelperAnswer; what may be meant is a warning. Answers that defer or shut
// down configure nothing and are not checked; of one whose upgrade ends the
// sequence, only the upgrade is.
func (a Answer) check(c answerContext) (warnings []string, err error) {
	if a.Defer || a.Shutdown {
		return nil, nil
	}
	var f findings
	checks := answerChecks
	if c.UpgradeOnly {
		checks = []func(Answer, answerContext, *findings){checkUpgrade}
	}
	for _, look := range checks {
		look(a, c, &f)
	}
	if len(f.wrong) > 0 {
		err = fmt.Errorf("%w: %s", ErrHelperAnswer, strings.Join(f.wrong, "; "))
	}
	return f.doubtful, err
}

// checkLines knows how the node writes its file, key=value in lines, and how
// go-choria's config reads that back.
func checkLines(a Answer, _ answerContext, f *findings) {
	if len(a.Configuration) == 0 {
		f.refuse("its configuration is empty")
	}
	for _, key := range slices.Sorted(maps.Keys(a.Configuration)) {
		value := a.Configuration[key]
		switch {
		case key == "" || strings.HasPrefix(key, "#") || strings.ContainsFunc(key, notInKey):
			f.refuse("configuration: the key %q cannot be written: it is empty, starts with #, or holds =, blanks or control characters", key)
		case strings.ContainsFunc(value, notInValue):
			f.refuse("configuration: the value of %s holds a line end or another control character, which would add settings", key)
		case len(key)+len(value)+1 >= bufio.MaxScanTokenSize:
			f.refuse("configuration: the value of %s is too long: the node stops reading at lines of %d bytes", key, bufio.MaxScanTokenSize)
		case strings.TrimSpace(value) == "":
			f.warn("configuration: %s has no value: the node passes over it", key)
		}
	}
}

func notInKey(r rune) bool {
	return r == '=' || unicode.IsSpace(r) || unicode.IsControl(r)
}

func notInValue(r rune) bool { return r != '\t' && unicode.IsControl(r) }

// identity is the name the node comes back under: the helper's, or the one it
// has, which is its host name and stays that.
func (a Answer) identity(c answerContext) string {
	if named := a.Setting("identity"); named != "" {
		return named
	}
	return c.Identity
}

// checkIdentity leaves the name to the site, except where a credential in the
// same answer is bound to the one the node has now; checkLeaf looks at the
// certificate.
func checkIdentity(a Answer, c answerContext, f *findings) {
	switch named := a.identity(c); {
	case named == c.Identity:
	case !discovery.ValidIdentity(named):
		f.refuse("configuration: identity is %q, which no node can be named", named)
	case c.Config.Features.ED25519:
		f.refuse("configuration: identity is %q, and the server JWT that comes with it is issued to %q: the node would be refused under the new name", named, c.Identity)
	default:
		f.warn("configuration: identity is %q: the node, now %q, comes back under that name", named, c.Identity)
	}
}

const provisionKey = "plugin.choria.server.provision"

func checkProvisioningOff(a Answer, _ answerContext, f *findings) {
	switch {
	case a.on(provisionKey):
		f.refuse("configuration: %s is %q: the node would refuse to restart; set it to false", provisionKey, a.Setting(provisionKey))
	case !a.isSet(provisionKey):
		f.warn("configuration: %s is not set: the node may return to provisioning for ever; set it to false", provisionKey)
	}
}

const (
	authorizationKey = "rpcauthorization"
	authorizerKey    = "rpcauthprovider"
)

// checkAuthorization knows that authorization is on by default and that without
// policies it allows nothing, not even to see the node.
func checkAuthorization(a Answer, _ answerContext, f *findings) {
	if len(a.Configuration) == 0 || !a.on(authorizationKey) {
		return
	}
	switch provider := strings.ToLower(a.Setting(authorizerKey)); {
	case provider != "rego_policy" && len(a.ActionPolicies) == 0 && len(a.OPAPolicies) > 0:
		f.warn("opa_policies: the node does not read them, since %s is %s", authorizerKey, provider)
	case provider == "rego_policy" && len(a.OPAPolicies) == 0 && len(a.ActionPolicies) > 0:
		f.warn("action_policies: the node does not read them, since %s is %s", authorizerKey, provider)
	case len(a.ActionPolicies)+len(a.OPAPolicies) > 0 || a.isSet(authorizerKey) || a.on("plugin.actionpolicy.allow_unconfigured"):
	default:
		f.warn("configuration: %s is on (its default) and the answer brings no policies: unless the node has some, it will allow no request", authorizationKey)
	}
}

func checkPolicies(a Answer, _ answerContext, f *findings) {
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
				f.refuse("%s: %q does not end in %s: the node refuses it", kind.key, name, kind.extension)
			case strings.ContainsAny(name, `/\`) || strings.ContainsFunc(name, unicode.IsControl):
				f.refuse("%s: %q is no plain file name", kind.key, name)
			case kind.policies[name] == "":
				f.warn("%s: %q is empty: the node does not write it", kind.key, name)
			}
		}
	}
}

var (
	// knownClaims are the names in server_claims that count when a token is issued.
	knownClaims = []string{"collectives", "exp", "ou", "permissions", "pub_subjects"}
	// ownClaims are those that whoever encodes tokens.ServerClaims sends along.
	ownClaims = []string{"aud", "iat", "identity", "issexp", "iss", "jti", "nbf", "public_key", "purpose", "sub", "tcs"}
)

func checkClaims(a Answer, c answerContext, f *findings) {
	if a.ServerClaims == nil {
		return
	}
	if !c.Config.Features.ED25519 {
		f.warn("server_claims: no server JWT is issued, since features.ed25519 is off")
	}
	if named := a.ServerClaims.ChoriaIdentity; named != "" && named != c.Identity {
		f.refuse("server_claims: identity is %q, this node is %q: the answer is another node's", named, c.Identity)
	}
	if key := a.ServerClaims.PublicKey; key != "" && c.ED25519 != nil && !strings.EqualFold(key, hex.EncodeToString(c.ED25519)) {
		f.refuse("server_claims: public_key is not this node's: the answer is another node's")
	}
	for _, claim := range a.Claims {
		if folded(claim, slices.Values(knownClaims)) == "" && folded(claim, slices.Values(ownClaims)) == "" {
			f.warn("server_claims: there is no claim %q; what counts is %s", claim, strings.Join(knownClaims, ", "))
		}
	}
}

func checkUpgrade(a Answer, c answerContext, f *findings) {
	switch {
	case a.Upgrade == "":
	case !c.Config.Features.Upgrades:
		f.warn("upgrade: not to %s, since features.upgrades is off", a.Upgrade)
	case strings.ContainsFunc(a.Upgrade, func(r rune) bool { return unicode.IsControl(r) || unicode.IsSpace(r) }):
		f.refuse("upgrade: %q is no version", a.Upgrade)
	}
}
