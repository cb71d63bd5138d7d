package helper

import (
	"crypto/ed25519"
	"maps"
	"strings"
	"testing"

	"github.com/choria-io/tokens"

	"choria-provision/config"
	"choria-provision/provision/trust"
)

func plainConfig() *config.Config {
	c := config.Default()
	c.Features = config.Features{JWT: true}
	return c
}

var (
	issuerHex = strings.Repeat("ab", ed25519.PublicKeySize)
	otherHex  = strings.Repeat("cd", ed25519.PublicKeySize)
)

// fileSettings and choriaSettings are configurations nothing is wrong with.
func fileSettings() map[string]string {
	return map[string]string{
		"identity": "n1", "rpcauthorization": "0", provisionKey: "0", trust.ProviderKey: "file",
		"plugin.security.file.certificate": "/s/certificate.pem",
		"plugin.security.file.key":         "/s/private.pem",
		"plugin.security.file.ca":          "/s/ca.pem",
	}
}

func choriaSettings() map[string]string {
	return map[string]string{
		"identity": "n1", "rpcauthorization": "0", provisionKey: "false", trust.ProviderKey: "choria",
		"plugin.security.choria.token_file":    "/d/server.jwt",
		"plugin.security.choria.seed_file":     "/d/server.seed",
		"plugin.security.issuer.names":         "choria",
		"plugin.security.issuer.choria.public": issuerHex,
	}
}

// with returns settings with changes; an empty value takes a key away.
func with(settings map[string]string, changes ...string) map[string]string {
	settings = maps.Clone(settings)
	for i := 0; i < len(changes); i += 2 {
		settings[changes[i]] = changes[i+1]
		if changes[i+1] == "" {
			delete(settings, changes[i])
		}
	}
	return settings
}

// wantFindings wants exactly one warning, or one error, or neither.
func wantFindings(t *testing.T, a Answer, c CheckInput, warns, fails string) {
	t.Helper()
	warnings, err := a.Check(c)
	wantCause(t, err, ErrAnswer, fails)
	if fails != "" && err == nil {
		t.Errorf("got no error, want %q", fails)
	}
	switch {
	case warns == "" && fails == "" && len(warnings) > 0:
		t.Errorf("got warnings %q, want none", warnings)
	case warns != "" && (len(warnings) != 1 || !strings.Contains(warnings[0], warns)):
		t.Errorf("got warnings %q, want one saying %q", warnings, warns)
	}
}

func TestConfigurationsAreHeldAgainstWhatNodesDo(t *testing.T) {
	t.Parallel()
	file, choria := fileSettings(), choriaSettings()
	tests := []struct {
		name         string
		settings     map[string]string
		warns, fails string
	}{
		{name: "file provider", settings: file},
		{name: "choria provider", settings: choria},
		{name: "trusted signers", settings: with(choria, trust.IssuersKey, "", trust.SignersKey, issuerHex)},
		{name: "two issuers", settings: with(choria, trust.IssuersKey, "choria, acme", trust.IssuerKey("acme"), otherHex)},
		{name: "puppet provider", settings: map[string]string{provisionKey: "no", trust.ProviderKey: "puppet", "rpcauthorization": "n"}},
		{name: "value holds equal signs and tabs", settings: with(file, "plugin.x", "a=b\t=c")},
		{name: "empty", fails: "configuration is empty"},

		{name: "line end adds a setting", settings: with(file, "plugin.x", "a\nidentity=n2"), fails: "the value of plugin.x holds a line end"},
		{name: "carriage return", settings: with(file, "plugin.x", "a\rb"), fails: "the value of plugin.x holds"},
		{name: "NUL", settings: with(file, "plugin.x", "a\x00b"), fails: "the value of plugin.x holds"},
		{name: "line end in a key", settings: with(file, "a\nb", "x"), fails: `the key "a\nb" cannot be written`},
		{name: "equal sign in a key", settings: with(file, "a=b", "x"), fails: `the key "a=b"`},
		{name: "comment as a key", settings: with(file, "#a", "x"), fails: `the key "#a"`},
		{name: "blank key", settings: with(file, " ", "x"), fails: `the key " "`},
		{name: "empty key", settings: with(file, "", "x"), fails: `the key ""`},
		{name: "line beyond the node's reader", settings: with(file, "plugin.x", strings.Repeat("x", 64<<10)), fails: "plugin.x is too long"},
		{name: "value without a letter", settings: with(file, "plugin.x", " "), warns: "plugin.x has no value"},

		{name: "another name", settings: with(file, "identity", "n2"), warns: `identity is "n2": the node, now "n1", comes back under that name`},
		{name: "a name that no node can have", settings: with(file, "identity", "n 2"), fails: `identity is "n 2", which no node can be named`},
		{name: "another name by letter case", settings: with(file, "identity", "N1"), warns: `identity is "N1"`},
		{name: "host name as identity", settings: with(file, "identity", "")},

		{name: "provisioning not mentioned", settings: with(file, provisionKey, ""), warns: "return to provisioning for ever"},
		{name: "provisioning true", settings: with(file, provisionKey, "true"), fails: "refuse to restart"},
		{name: "provisioning Y", settings: with(file, provisionKey, " Y "), fails: "refuse to restart"},
		{name: "provisioning 1", settings: with(file, provisionKey, "1"), fails: "refuse to restart"},

		{name: "authorization by default", settings: with(file, "rpcauthorization", ""), warns: "it will allow no request"},
		{name: "authorization on", settings: with(file, "rpcauthorization", "1"), warns: "it will allow no request"},
		{name: "authorization with a default", settings: with(file, "rpcauthorization", "1", "plugin.actionpolicy.allow_unconfigured", "y")},
		{name: "authorization by another provider", settings: with(file, "rpcauthorization", "1", "rpcauthprovider", "rego_policy")},

		{name: "no provider", settings: with(file, trust.ProviderKey, ""), warns: "its default is puppet: the node ends at its next start when it has no Puppet"},
		{name: "unknown provider", settings: with(file, trust.ProviderKey, "files"), fails: `is "files", which is none of puppet, file`},
		{name: "file without certificate", settings: with(file, "plugin.security.file.certificate", ""), fails: "plugin.security.file.certificate is not set"},
		{name: "file without key", settings: with(file, "plugin.security.file.key", ""), fails: "plugin.security.file.key is not set"},
		{name: "file without ca", settings: with(file, "plugin.security.file.ca", ""), fails: "plugin.security.file.ca is not set"},
		{name: "file by token", settings: map[string]string{provisionKey: "0", trust.ProviderKey: "file", "rpcauthorization": "0", "plugin.security.server_anon_tls": "true"}},
		{name: "choria without token", settings: with(choria, "plugin.security.choria.token_file", ""), fails: "token_file is not set"},
		{name: "choria without seed", settings: with(choria, "plugin.security.choria.seed_file", ""), fails: "seed_file is not set"},
		{name: "choria without issuers", settings: with(choria, trust.IssuersKey, ""), fails: "needs plugin.security.issuer.names or"},
		{name: "choria with issuers and signers", settings: with(choria, trust.SignersKey, otherHex), fails: "exclude each other"},
		{name: "issuer without key", settings: with(choria, trust.IssuerKey("choria"), ""), fails: "plugin.security.issuer.choria.public is not the hex"},
		{name: "issuer with half a key", settings: with(choria, trust.IssuerKey("choria"), "abcd"), fails: "plugin.security.issuer.choria.public is not the hex"},
		{name: "signer that is none", settings: with(choria, trust.IssuersKey, "", trust.SignersKey, issuerHex+",xyz"), fails: `holds "xyz"`},
		{name: "choria with v1 token", settings: with(choria, "plugin.choria.security.server.token_file", "/x"), fails: "plugin.choria.security.server.token_file cannot be used"},
		{name: "choria with anonymous TLS", settings: with(choria, "plugin.security.server_anon_tls", "1"), fails: "server_anon_tls cannot be used"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			wantFindings(t, Answer{Configuration: tt.settings}, CheckInput{Valid: anyIdentity, Identity: "n1", Config: plainConfig()}, tt.warns, tt.fails)
		})
	}
}

func TestAnswersAreHeldAgainstNodeAndFeatures(t *testing.T) {
	t.Parallel()
	key := ed25519.PublicKey(strings.Repeat("k", ed25519.PublicKeySize))
	issuer := CheckInput{Valid: anyIdentity, Identity: "n1", Config: plainConfig(), ED25519: key, SSLDir: "/d"}
	issuer.Config.Features.ED25519 = true
	insecure := CheckInput{Valid: anyIdentity, Identity: "n1", Config: plainConfig()}
	insecure.Config.Insecure = true
	upgrades := CheckInput{Valid: anyIdentity, Identity: "n1", Config: plainConfig()}
	upgrades.Config.Features.Upgrades = true
	plain := CheckInput{Valid: anyIdentity, Identity: "n1", Config: plainConfig()}
	claims := func(c tokens.ServerClaims, names ...string) Answer {
		return Answer{Configuration: choriaSettings(), ServerClaims: &c, Claims: names}
	}
	tests := []struct {
		name         string
		answer       Answer
		context      CheckInput
		warns, fails string
	}{
		{name: "issuer network", answer: Answer{Configuration: choriaSettings()}, context: issuer},
		{name: "server JWT for the old name", answer: Answer{Configuration: with(choriaSettings(), "identity", "n2")}, context: issuer, fails: `identity is "n2", and the server JWT that comes with it is issued to "n1"`},
		{name: "issuer network with another provider", answer: Answer{Configuration: fileSettings()}, context: issuer, fails: `plugin.security.provider is "file", with which the node does not use the server JWT it gets; set it to choria`},
		{name: "issuer network without a provider", answer: Answer{Configuration: with(choriaSettings(), trust.ProviderKey, "")}, context: issuer, fails: `plugin.security.provider is not set, and its default is puppet, with which the node does not use the server JWT`},
		{name: "issuer network with a blank provider", answer: Answer{Configuration: with(choriaSettings(), trust.ProviderKey, " ")}, context: issuer, fails: "plugin.security.provider is not set"},
		{name: "issuer network by token alone", answer: Answer{Configuration: with(fileSettings(), "plugin.security.server_anon_tls", "true")}, context: issuer},
		{name: "issuer network by token alone, without a provider", answer: Answer{Configuration: with(fileSettings(), "plugin.security.server_anon_tls", "true", trust.ProviderKey, "")}, context: issuer, fails: "its default is puppet"},
		{name: "token elsewhere", answer: Answer{Configuration: with(choriaSettings(), "plugin.security.choria.token_file", "/x/server.jwt")}, context: issuer, warns: "the node writes /d/server.jwt"},
		{name: "insecure network has no files", answer: Answer{Configuration: map[string]string{trust.ProviderKey: "file", provisionKey: "0", "rpcauthorization": "0"}}, context: insecure},
		{name: "claims nobody signs", answer: claims(tokens.ServerClaims{}), context: plain, warns: "features.ed25519 is off"},
		{name: "claims of another node", answer: claims(tokens.ServerClaims{ChoriaIdentity: "n2"}), context: issuer, fails: `server_claims: identity is "n2"`},
		{name: "key of another node", answer: claims(tokens.ServerClaims{StandardClaims: tokens.StandardClaims{PublicKey: otherHex}}), context: issuer, fails: "public_key is not this node's"},
		{name: "claim with a typo", answer: claims(tokens.ServerClaims{}, "collective", "Exp", "purpose", "OU", "PUB_subjects"), context: issuer, warns: `no claim "collective"`},
		{name: "policies", answer: Answer{Configuration: fileSettings(), ActionPolicies: map[string]string{"a.policy": "x"}, OPAPolicies: map[string]string{"a.rego": "x"}}, context: plain},
		{name: "policies of another provider", answer: Answer{Configuration: with(fileSettings(), "rpcauthorization", "1"), OPAPolicies: map[string]string{"a.rego": "x"}}, context: plain, warns: "opa_policies: the node does not read them, since rpcauthprovider is action_policy"},
		{name: "policies of another provider, the other way", answer: Answer{Configuration: with(fileSettings(), "rpcauthorization", "1", "rpcauthprovider", "rego_policy"), ActionPolicies: map[string]string{"a.policy": "x"}}, context: plain, warns: "action_policies: the node does not read them, since rpcauthprovider is rego_policy"},
		{name: "opa policies with their provider", answer: Answer{Configuration: with(fileSettings(), "rpcauthorization", "1", "rpcauthprovider", "Rego_policy"), OPAPolicies: map[string]string{"a.rego": "x"}}, context: plain},
		{name: "policies make up for authorization", answer: Answer{Configuration: with(fileSettings(), "rpcauthorization", "1"), ActionPolicies: map[string]string{"a.policy": "x"}}, context: plain},
		{name: "policy with another ending", answer: Answer{Configuration: fileSettings(), ActionPolicies: map[string]string{"a.rego": "x"}}, context: plain, fails: `"a.rego" does not end in .policy`},
		{name: "rego with another ending", answer: Answer{Configuration: fileSettings(), OPAPolicies: map[string]string{"a.policy": "x"}}, context: plain, fails: `"a.policy" does not end in .rego`},
		{name: "policy outside", answer: Answer{Configuration: fileSettings(), ActionPolicies: map[string]string{"../a.policy": "x"}}, context: plain, fails: "no plain file name"},
		{name: "policy outside of Windows", answer: Answer{Configuration: fileSettings(), OPAPolicies: map[string]string{`..\a.rego`: "x"}}, context: plain, fails: "no plain file name"},
		{name: "policy with NUL", answer: Answer{Configuration: fileSettings(), OPAPolicies: map[string]string{"a\x00.rego": "x"}}, context: plain, fails: "no plain file name"},
		{name: "empty policy", answer: Answer{Configuration: fileSettings(), ActionPolicies: map[string]string{"a.policy": ""}}, context: plain, warns: "does not write it"},
		{name: "upgrade", answer: Answer{Configuration: fileSettings(), Upgrade: "1:0.30.2-1.el9"}, context: upgrades},
		{name: "upgrade that is off", answer: Answer{Configuration: fileSettings(), Upgrade: "0.30.2"}, context: plain, warns: "features.upgrades is off"},
		{name: "upgrade to no version", answer: Answer{Configuration: fileSettings(), Upgrade: "0.30\n"}, context: upgrades, fails: "is no version"},
		{name: "deferred is not checked", answer: Answer{Defer: true}, context: issuer},
		{name: "shut down is not checked", answer: Answer{Shutdown: true}, context: issuer},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			wantFindings(t, tt.answer, tt.context, tt.warns, tt.fails)
		})
	}
}

func TestAllThatIsWrongIsToldAtOnce(t *testing.T) {
	t.Parallel()
	a := Answer{Configuration: with(fileSettings(), "identity", "n*", provisionKey, "1", "plugin.security.file.ca", "")}
	_, err := a.Check(CheckInput{Valid: anyIdentity, Identity: "n1", Config: plainConfig()})
	for _, text := range []string{"which no node can be named", "refuse to restart", "plugin.security.file.ca is not set"} {
		wantCause(t, err, ErrAnswer, text)
	}
}

func TestConfigurationIsShownWithoutSecrets(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, key, value, want string }{
		{"password", "plugin.nats.pass", "hunter2", "****"},
		{"client password", "plugin.choria.network.provisioning.client_password", "hunter2", "****"},
		{"token", "plugin.x.token", "t", "****"},
		{"secret", "plugin.x.Client_Secret", "t", "****"},
		{"empty password", "plugin.nats.pass", "", ""},
		{"file of a token", "plugin.security.choria.token_file", "/d/server.jwt", "/d/server.jwt"},
		{"file of a seed", "plugin.security.choria.seed_file", "/d/server.seed", "/d/server.seed"},
		{"public key", "plugin.security.issuer.choria.public", issuerHex, issuerHex},
		{"password in a URL", "plugin.choria.middleware_hosts", "nats://u:hunter2@a:4222,nats://v:hunter3@b:4222", "nats://u:****@a:4222,nats://v:****@b:4222"},
		{"URL", "plugin.choria.middleware_hosts", "nats://a:4222,nats://b:4222", "nats://a:4222,nats://b:4222"},
		{"JWT", "plugin.x", "eyJhbGciOiJFZERTQSJ9.eyJwdXJwb3NlIjoieCJ9.c2ln", "****"},
		{"private key", "plugin.x", "-----BEGIN EC PRIVATE KEY-----", "****"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			settings := map[string]string{tt.key: tt.value}
			if got := Redacted(settings)[tt.key]; got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			if settings[tt.key] != tt.value {
				t.Errorf("got the configuration itself changed to %q", settings[tt.key])
			}
		})
	}
}
