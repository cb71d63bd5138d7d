package helper

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

// checkProvider requires what go-choria's security providers need: a server that
// lacks it accepts its configuration and exits at its next start.
func checkProvider(a Answer, c CheckInput, f *problems) {
	provider := a.Setting(trust.ProviderKey)
	switch {
	case len(a.Configuration) == 0:
	case !slices.Contains(providers, provider):
		f.errorf("configuration: %s is %q, which is none of %s: the node would end at its next start", trust.ProviderKey, provider, strings.Join(providers, ", "))
	case provider == "file" && !c.Config.Insecure && !a.enabled(anonymousKey):
		checkFileProvider(a, c, f)
	case provider == "choria":
		checkChoriaProvider(a, c, f)
	}
}

// checkProviderUse compares the provider with the credentials in the answer: a
// server whose provider uses others exits at its next start.
//
//nolint:gocyclo // one flat list of rules, each a case of its own
func checkProviderUse(a Answer, c CheckInput, f *problems) {
	const unused = "configuration: %s, with which the node does not use the %s it gets; set it to %s"
	provider := a.Setting(trust.ProviderKey)
	given := fmt.Sprintf("%s is %q", trust.ProviderKey, provider)
	if !a.isSet(trust.ProviderKey) {
		given = fmt.Sprintf("%s is not set, and its default is %s", trust.ProviderKey, provider)
	}
	byToken := provider == "file" && a.enabled(anonymousKey)
	switch {
	case len(a.Configuration) == 0 || !slices.Contains(providers, provider):
	case c.Config.Features.ED25519 && provider != "choria" && !byToken:
		f.errorf(unused, given, "server JWT", "choria")
	case a.Certificate != "" && provider == "puppet":
		f.errorf(unused, given, "certificate", "file")
	case a.Certificate != "" && provider != "file" && provider != "choria":
		f.warn(unused, given, "certificate", "file")
	case !a.isSet(trust.ProviderKey):
		f.warn("configuration: %s: the node ends at its next start when it has no Puppet", given)
	}
}

func checkFileProvider(a Answer, c CheckInput, f *problems) {
	files := map[string]string{"certificate": "certificate.pem", "key": "private.pem", "ca": "ca.pem"}
	for _, key := range []string{"certificate", "key", "ca"} {
		full := "plugin.security.file." + key
		a.requireSetting(full, "file", f)
		a.expectPath(full, path.Join(a.sslDir(c), files[key]), a.Certificate != "" && a.sslDir(c) != "", f)
	}
}

func checkChoriaProvider(a Answer, c CheckInput, f *problems) {
	files := map[string]string{"token_file": "server.jwt", "seed_file": "server.seed"}
	for _, key := range []string{"token_file", "seed_file"} {
		full := "plugin.security.choria." + key
		a.requireSetting(full, "choria", f)
		a.expectPath(full, path.Join(c.SSLDir, files[key]), c.ED25519 != nil && c.SSLDir != "", f)
	}
	for _, key := range []string{
		"plugin.choria.security.server.token_file", "plugin.choria.security.server.seed_file",
		"plugin.choria.security.request_signer.token_file", "plugin.choria.security.request_signer.seed_file",
	} {
		if a.Setting(key) != "" {
			f.errorf("configuration: %s cannot be used with %s = choria: the node would end at its next start", key, trust.ProviderKey)
		}
	}
	for _, key := range []string{anonymousKey, "plugin.security.client_anon_tls"} {
		if a.enabled(key) {
			f.errorf("configuration: %s cannot be used with %s = choria: the node would end at its next start", key, trust.ProviderKey)
		}
	}
	checkIssuers(a, f)
}

// checkIssuers requires exactly one of the two settings for trusted issuers.
func checkIssuers(a Answer, f *problems) {
	issuers, signers := a.List(trust.IssuersKey), a.List(trust.SignersKey)
	switch {
	case len(issuers) == 0 && len(signers) == 0:
		f.errorf("configuration: %s = choria needs %s or %s: the node would end at its next start", trust.ProviderKey, trust.IssuersKey, trust.SignersKey)
	case len(issuers) > 0 && len(signers) > 0:
		f.errorf("configuration: %s and %s exclude each other: the node would end at its next start", trust.IssuersKey, trust.SignersKey)
	}
	for _, issuer := range issuers {
		if key := trust.IssuerKey(issuer); !isHexKey(a.Setting(key)) {
			f.errorf("configuration: %s is not the hex ed25519 public key of issuer %q: the node would end at its next start", key, issuer)
		}
	}
	for _, signer := range signers {
		if !isHexKey(signer) {
			f.errorf("configuration: %s holds %q, which is no hex ed25519 public key", trust.SignersKey, signer)
		}
	}
}

func isHexKey(text string) bool {
	_, err := trust.ParsePublicKey(text)
	return err == nil
}

// requireSetting refuses an answer without the key.
func (a Answer) requireSetting(key, provider string, f *problems) {
	if a.Setting(key) == "" {
		f.errorf("configuration: %s is not set, which %s = %s needs: the node would end at its next start", key, trust.ProviderKey, provider)
	}
}

// expectPath warns if the key names another file than the one that the node will
// write; that may be intended.
func (a Answer) expectPath(key, file string, known bool, f *problems) {
	if named := a.Setting(key); known && named != "" && path.Clean(named) != path.Clean(file) {
		f.warn("configuration: %s is %s, the node writes %s", key, named, file)
	}
}

// sslDir returns the directory into which the node will write certificate and key.
func (a Answer) sslDir(c CheckInput) string {
	if c.SSLDir != "" {
		return c.SSLDir
	}
	return a.SSLDir
}
