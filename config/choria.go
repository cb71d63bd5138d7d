package config

import (
	"crypto/ed25519"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	"github.com/choria-io/go-choria/choria"
	choriaconfig "github.com/choria-io/go-choria/config"
	"github.com/choria-io/go-choria/protocol"
)

const (
	// collective is where nodes wait (build.ProvisionDefaultCollective and
	// ConfigureProvisioning of go-choria's servers).
	collective = "provisioning"
	// provisioningUser is the NATS login of the broker's provisioning account
	// (broker/network of go-choria).
	provisioningUser = "provisioner"
	// maxDial is the most go-choria accepts as connect timeout.
	maxDial = 120 * time.Second
)

// Choria makes the Choria client configuration of a provisioner: file, else
// go-choria's configuration of this user, with our overrides. Mistakes come
// back as *Invalid, like those of Load; what is accepted by everybody and only
// shows later comes back as warnings.
//
// Only that file and its plugin.d count. go-choria's own tools also merge every
// choria.conf from / down to the working directory, which for a program that
// timers start is whatever happens to lie there.
//
// When choria_insecure is set this turns go-choria's protocol security off for
// the whole process: there is no other switch for it.
func (c *Config) Choria(file string, getenv func(string) string) (*choriaconfig.Config, []Problem, error) {
	if file == "" {
		file = choria.UserConfig()
	}
	cfg, err := loadChoriaFile(file)
	if err != nil {
		return nil, nil, err
	}
	if err := c.override(cfg); err != nil {
		return nil, nil, err
	}
	if cfg.Choria.SecurityProvider == "choria" && getenv("USER") == "" {
		return nil, nil, choriaMistake(file, "go-choria's security provider choria needs $USER, which is not set", "set USER in the environment (systemd: Environment=USER=...)")
	}
	c.certname(cfg, getenv)
	problems := append(c.choriaWarnings(cfg, getenv), c.checkChoriaFile(cfg)...)
	if hasErrors(problems) {
		return nil, nil, &Invalid{problems}
	}
	return cfg, problems, nil
}

// override sets what a provisioner needs whatever the file says.
func (c *Config) override(cfg *choriaconfig.Config) error {
	cfg.LogLevel = c.LogLevel
	cfg.LogFile = c.LogFile
	if cfg.LogFile == "" {
		cfg.LogFile = "stderr"
	}
	cfg.Collectives = []string{collective}
	cfg.MainCollective = collective
	cfg.RegistrationCollective = collective
	cfg.DiscoveryTimeout = int((c.DiscoveryTimeout.Duration + time.Second - 1) / time.Second)
	// Half of our own limit: a first attempt then ends, and tells why, before
	// the whole connect does.
	cfg.Choria.NetworkConnectTimeout = min(c.ConnectTimeout.Duration/2, maxDial)
	if c.Insecure {
		cfg.DisableTLS = true
		cfg.Choria.SecurityProvider = "file"
		protocol.Secure = "false"
	}
	if c.BrokerPassword.IsSet() {
		password, err := c.BrokerPassword.Reveal()
		if err != nil {
			return &Invalid{[]Problem{{Severity: SeverityError, File: c.File, Key: "broker_provisioning_password", Text: err.Error(), Remedy: "give this user a file it can read"}}}
		}
		cfg.Choria.NatsUser, cfg.Choria.NatsPass = provisioningUser, password
	}
	return nil
}

// certname keeps the file provider from calling us $USER.mcollective when the
// configuration names an identity (providers/security/filesec): the nodes would
// see a caller that our certificate does not know.
func (c *Config) certname(cfg *choriaconfig.Config, getenv func(string) string) {
	named := cfg.HasOption("identity") || c.Insecure
	if cfg.Choria.SecurityProvider == "file" && cfg.OverrideCertname == "" && getenv("MCOLLECTIVE_CERTNAME") == "" && named {
		cfg.OverrideCertname = cfg.Identity
	}
}

// choriaWarnings tells what every part accepts and only shows later, mostly as
// a run that finds nobody.
func (c *Config) choriaWarnings(cfg *choriaconfig.Config, getenv func(string) string) []Problem {
	var problems []Problem
	warn := func(file, key, text, remedy string) {
		p := warning(key, text, remedy).Problem
		p.File = file
		problems = append(problems, p)
	}
	if name := getenv("MCOLLECTIVE_CERTNAME"); name != "" && name != cfg.Identity {
		warn("", "", fmt.Sprintf("$MCOLLECTIVE_CERTNAME makes us %q and not %q, whatever the configuration says", name, cfg.Identity), "unset it")
	}
	if option := credentialOption(cfg); c.Insecure && option != "" {
		warn(c.File, "choria_insecure", fmt.Sprintf("turns TLS and signatures off and leaves %s in %s unused: a broker that demands TLS refuses us", option, cfg.ConfigFile), "take choria_insecure out, or that key when the broker has no TLS")
	}
	if !c.Insecure && cfg.Choria.NatsUser == "" {
		warn(c.File, "broker_provisioning_password", "is missing: the broker would put us into the production account, where no node waits", "write the broker's plugin.choria.network.provisioning.client_password")
	}
	if c.underIssuer() && !c.Insecure && cfg.Choria.SecurityProvider != "choria" {
		warn(cfg.ConfigFile, "plugin.security.provider", fmt.Sprintf("is %s: an Organization Issuer's nodes do not hear it, and no node would be found", cfg.Choria.SecurityProvider), "set it to choria")
	}
	if c.strangeIssuer(cfg) {
		warn(c.File, "jwt_signing_token", "is missing, and jwt_signing_key is none of the issuers in "+cfg.ConfigFile+": servers would be provisioned and then refused by the broker (Authorization Violation)", "name the provisioner's own JWT, which carries the issuer's chain")
	}
	return problems
}

// credentialOption returns a key of the Choria configuration that names our
// credentials, or "": they show that the network has TLS.
func credentialOption(cfg *choriaconfig.Config) string {
	for _, option := range []string{
		"plugin.security.file.certificate", "plugin.security.file.key", "plugin.security.file.ca",
		"plugin.security.choria.token_file", "plugin.security.choria.seed_file",
	} {
		if cfg.HasOption(option) {
			return option
		}
	}
	return ""
}

// strangeIssuer reports whether server JWTs would be signed by a key that the
// Choria configuration does not list as issuer, with no chain to one. The check
// of jwt_signing_key covers a jwt_verify_cert that is the issuer's key itself.
func (c *Config) strangeIssuer(cfg *choriaconfig.Config) bool {
	if !c.Features.ED25519 || c.JWTSigningToken != "" || len(cfg.Choria.IssuerNames) == 0 || c.keys.issuer != nil || c.keys.signer == nil {
		return false
	}
	return !slices.ContainsFunc(cfg.Choria.IssuerNames, func(name string) bool {
		issuer, err := hex.DecodeString(cfg.Option("plugin.security.issuer."+name+".public", ""))
		return err == nil && c.keys.signerIs(ed25519.PublicKey(issuer))
	})
}

// underIssuer reports whether server JWTs are issued in the name of an
// Organization Issuer, and not signed by a key that brokers know themselves
// (plugin.choria.network.server_signer_cert).
func (c *Config) underIssuer() bool {
	return c.Features.ED25519 && (c.JWTSigningToken != "" || c.keys.issuer != nil)
}
