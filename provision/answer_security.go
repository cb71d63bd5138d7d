package provision

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"choria-provision/provision/trust"
)

// providers are those that go-choria's framework can set up.
var providers = []string{"puppet", "file", "pkcs11", "certmanager", "choria"}

const anonymousKey = "plugin.security.server_anon_tls"

// checkProvider knows what go-choria's security providers need: a server that
// lacks it accepts its configuration and ends at its next start.
func checkProvider(a Answer, c answerContext, f *findings) {
	provider := a.Setting(trust.ProviderKey)
	switch {
	case len(a.Configuration) == 0:
	case !slices.Contains(providers, provider):
		f.refuse("configuration: %s is %q, which is none of %s: the node would end at its next start", trust.ProviderKey, provider, strings.Join(providers, ", "))
	case provider == "file" && !c.Config.Insecure && !a.on(anonymousKey):
		checkFileProvider(a, c, f)
	case provider == "choria":
		checkChoriaProvider(a, c, f)
	}
}

// checkProviderUse holds the provider against the credentials that come with
// the answer: one that uses others looks for them at the next start, and ends
// when there are none.
//
//nolint:gocyclo // one flat list of rules, each a case of its own
func checkProviderUse(a Answer, c answerContext, f *findings) {
	const unused = "configuration: %s, with which the node does not use the %s it gets; set it to %s"
	provider := a.Setting(trust.ProviderKey)
	given := fmt.Sprintf("%s is %q", trust.ProviderKey, provider)
	if !a.isSet(trust.ProviderKey) {
		given = fmt.Sprintf("%s is not set, and its default is %s", trust.ProviderKey, provider)
	}
	byToken := provider == "file" && a.on(anonymousKey)
	switch {
	case len(a.Configuration) == 0 || !slices.Contains(providers, provider):
	case c.Config.Features.ED25519 && provider != "choria" && !byToken:
		f.refuse(unused, given, "server JWT", "choria")
	case a.Certificate != "" && provider == "puppet":
		f.refuse(unused, given, "certificate", "file")
	case a.Certificate != "" && provider != "file" && provider != "choria":
		f.warn(unused, given, "certificate", "file")
	case !a.isSet(trust.ProviderKey):
		f.warn("configuration: %s: the node ends at its next start when it has no Puppet", given)
	}
}

func checkFileProvider(a Answer, c answerContext, f *findings) {
	files := map[string]string{"certificate": "certificate.pem", "key": "private.pem", "ca": "ca.pem"}
	for _, key := range []string{"certificate", "key", "ca"} {
		full := "plugin.security.file." + key
		a.needs(full, "file", f)
		a.wants(full, path.Join(a.sslDir(c), files[key]), a.Certificate != "" && a.sslDir(c) != "", f)
	}
}

func checkChoriaProvider(a Answer, c answerContext, f *findings) {
	files := map[string]string{"token_file": "server.jwt", "seed_file": "server.seed"}
	for _, key := range []string{"token_file", "seed_file"} {
		full := "plugin.security.choria." + key
		a.needs(full, "choria", f)
		a.wants(full, path.Join(c.SSLDir, files[key]), c.ED25519 != nil && c.SSLDir != "", f)
	}
	for _, key := range []string{
		"plugin.choria.security.server.token_file", "plugin.choria.security.server.seed_file",
		"plugin.choria.security.request_signer.token_file", "plugin.choria.security.request_signer.seed_file",
	} {
		if a.Setting(key) != "" {
			f.refuse("configuration: %s cannot be used with %s = choria: the node would end at its next start", key, trust.ProviderKey)
		}
	}
	for _, key := range []string{anonymousKey, "plugin.security.client_anon_tls"} {
		if a.on(key) {
			f.refuse("configuration: %s cannot be used with %s = choria: the node would end at its next start", key, trust.ProviderKey)
		}
	}
	checkIssuers(a, f)
}

// checkIssuers wants exactly one of the two ways to say whose tokens count.
func checkIssuers(a Answer, f *findings) {
	issuers, signers := a.List(trust.IssuersKey), a.List(trust.SignersKey)
	switch {
	case len(issuers) == 0 && len(signers) == 0:
		f.refuse("configuration: %s = choria needs %s or %s: the node would end at its next start", trust.ProviderKey, trust.IssuersKey, trust.SignersKey)
	case len(issuers) > 0 && len(signers) > 0:
		f.refuse("configuration: %s and %s exclude each other: the node would end at its next start", trust.IssuersKey, trust.SignersKey)
	}
	for _, issuer := range issuers {
		if key := trust.IssuerKey(issuer); !isHexKey(a.Setting(key)) {
			f.refuse("configuration: %s is not the hex ed25519 public key of issuer %q: the node would end at its next start", key, issuer)
		}
	}
	for _, signer := range signers {
		if !isHexKey(signer) {
			f.refuse("configuration: %s holds %q, which is no hex ed25519 public key", trust.SignersKey, signer)
		}
	}
}

func isHexKey(text string) bool {
	_, err := trust.ParsePublicKey(text)
	return err == nil
}

// needs refuses an answer without the key.
func (a Answer) needs(key, provider string, f *findings) {
	if a.Setting(key) == "" {
		f.refuse("configuration: %s is not set, which %s = %s needs: the node would end at its next start", key, trust.ProviderKey, provider)
	}
}

// wants warns when the key names another file than the one the node is going
// to write; the site may know better.
func (a Answer) wants(key, file string, known bool, f *findings) {
	if named := a.Setting(key); known && named != "" && path.Clean(named) != path.Clean(file) {
		f.warn("configuration: %s is %s, the node writes %s", key, named, file)
	}
}

// sslDir is where the node will write certificate and key.
func (a Answer) sslDir(c answerContext) string {
	if c.SSLDir != "" {
		return c.SSLDir
	}
	return a.SSLDir
}
