package config

import (
	"os"
	"path/filepath"
	"strings"
)

// resolve applies overrides, implied features and the location of secrets,
// before the checks.
func (c *Config) resolve(o Overrides) {
	if c.Features.ED25519 { // the server JWT goes to the node that proved its provisioning.jwt
		c.Features.JWT = true
	}
	c.resolvePaths()
	credentials := o.Getenv("CREDENTIALS_DIRECTORY")
	c.Token = secretFrom(c.Token, c.TokenFile, credentials, "token")
	c.BrokerPassword = secretFrom(c.BrokerPassword, c.BrokerPasswordFile, credentials, "broker_provisioning_password")
	c.StateDir = stateDir(o, c.StateDir)
	c.LogFile = logDestination(c.LogFile, o.Stdout)
	c.fillEmpty()
	if o.Debug {
		c.LogLevel = "debug"
	}
}

// fillEmpty gives the peer's keys that are 0 or empty their defaults, as the
// peer does.
func (c *Config) fillEmpty() {
	d := Default()
	if c.Workers == 0 {
		c.Workers = d.Workers
	}
	if c.LifecycleComponent == "" {
		c.LifecycleComponent = d.LifecycleComponent
	}
	if c.LogLevel == "" {
		c.LogLevel = d.LogLevel
	}
}

// secretFrom picks a secret: the text in the configuration, the file it names,
// or the credential of that name that systemd put there. Both text and file
// is an error that a check reports.
func secretFrom(text Secret, file, credentials, name string) Secret {
	switch {
	case text.IsSet():
		return text
	case file != "":
		return NewSecretFile(file)
	case credentials == "":
		return Secret{}
	}
	credential := filepath.Join(credentials, name)
	if _, err := os.Stat(credential); err != nil {
		return Secret{}
	}
	return NewSecretFile(credential)
}

// normalize replaces, after the checks, what they warned about by the value
// that is used instead.
func (c *Config) normalize() {
	switch c.LogFile {
	case toStderr, toStdout:
		c.LogFile = ""
	case toDiscard:
		c.LogFile = os.DevNull
	}
	c.Site = strings.TrimSpace(c.Site)
	if len(c.CertDenyList) == 0 { // as the peer does: an empty list must not allow every name
		c.CertDenyList = Default().CertDenyList
	}
}
