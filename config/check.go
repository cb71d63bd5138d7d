package config

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"time"
	"unicode"
)

// shortValidity is a server JWT validity that is likely a typing error: nothing
// renews the JWT of a server that was provisioned.
const shortValidity = time.Hour

// check walks every check; each reports all it finds and stops nothing.
func (c *Config) check(o Overrides) []finding {
	var found []finding
	for _, check := range []func(*Config) []finding{
		checkNumbers,
		checkDurations,
		checkWords,
		checkSecrets,
		checkRecords,
		checkFeatures,
		checkUnread,
		func(c *Config) []finding { return checkVerifyKey(c, o.Keys) },
		func(c *Config) []finding { return checkSigningKey(c, o.Keys) }, // knows the issuer from there
		checkUpgrades,
		checkPushgateway,
		checkPlaces,
		func(c *Config) []finding { return checkStateDir(c, o) },
		func(c *Config) []finding { return checkHelper(c, o.Getenv("PATH")) },
	} {
		found = append(found, check(c)...)
	}
	return found
}

func checkNumbers(c *Config) []finding {
	var found []finding
	if c.Workers < 1 {
		found = append(found, mistake("workers", fmt.Sprintf("is %d", c.Workers), "write 1 or more, or 0 for one worker for each CPU"))
	}
	if c.HelperWorkers < 0 {
		found = append(found, mistake("helper_workers", fmt.Sprintf("is %d", c.HelperWorkers), "write 1 or more, or 0 for as many as workers"))
	}
	if c.HelperWorkers > c.Workers && c.Workers > 0 {
		found = append(found, warning("helper_workers", fmt.Sprintf("is %d, but no more than workers, %d, are ever asked", c.HelperWorkers, c.Workers), "raise workers, or take it out"))
	}
	if c.Limit < 0 {
		found = append(found, mistake("limit", fmt.Sprintf("is %d", c.Limit), "write 1 or more, or 0 for no limit"))
	}
	if net.ParseIP(c.MonitorAddress) == nil {
		found = append(found, mistake("monitor_address", fmt.Sprintf("%q is no IP address", c.MonitorAddress), "write 127.0.0.1 for this machine only, or 0.0.0.0 for all its interfaces"))
	}
	if c.MonitorPort < 0 || c.MonitorPort > 65535 {
		found = append(found, mistake("monitor_port", fmt.Sprintf("%d is no port", c.MonitorPort), "write a port from 1 to 65535, or 0 for none"))
	}
	return found
}

func checkDurations(c *Config) []finding {
	var found []finding
	if c.Interval.Duration < time.Minute {
		found = append(found, mistake("interval", fmt.Sprintf("%s is shorter than a minute", c.Interval), "write 1m or more"))
	}
	for _, needed := range []struct {
		key   string
		value Duration
		usual Duration
	}{
		{"connect_timeout", c.ConnectTimeout, Default().ConnectTimeout},
		{"discovery_timeout", c.DiscoveryTimeout, Default().DiscoveryTimeout},
		{"helper_timeout", c.HelperTimeout, Default().HelperTimeout},
		{"pushgateway.timeout", c.Pushgateway.Timeout, Default().Pushgateway.Timeout},
	} {
		if needed.value.Duration == 0 {
			found = append(found, mistake(needed.key, "is 0: nothing could be done in that time", fmt.Sprintf("write %s, or take it out", needed.usual)))
		}
	}
	switch validity := c.ServerJWTValidity; {
	case validity.Duration == 0:
		found = append(found, mistake("server_jwt_validity", "is 0: no server JWT can be issued", fmt.Sprintf("write %s, or take it out", Default().ServerJWTValidity)))
	case validity.Duration <= shortValidity:
		found = append(found, warning("server_jwt_validity", fmt.Sprintf("is only %s: the broker refuses a server %s after it was provisioned", validity, validity), "write a longer time, such as 1y; a server JWT is not renewed"))
	}
	return found
}

// logLevels are the peer's.
var logLevels = []string{"debug", "info", "warn", "error"}

func checkWords(c *Config) []finding {
	var found []finding
	if !slices.Contains(logLevels, c.LogLevel) {
		found = append(found, mistake("loglevel", fmt.Sprintf("%q is no level", c.LogLevel), "write debug, info, warn or error"))
	}
	if c.HelperMode != HelperExec && c.HelperMode != HelperPersistent {
		found = append(found, mistake("helper_mode", fmt.Sprintf("%q is no mode", c.HelperMode), "write exec, or persistent when the helper answers one line after the other"))
	}
	if strings.ContainsAny(c.LifecycleComponent, ".>*") || strings.ContainsFunc(c.LifecycleComponent, unicode.IsSpace) {
		found = append(found, mistake("lifecycle_component", fmt.Sprintf("%q cannot be part of a NATS subject", c.LifecycleComponent), "write a word without `.`, `>`, `*` and spaces, such as provision_mode_server"))
	}
	if c.LogFile == toStdout {
		found = append(found, warning("logfile", "stdout carries the result; the log goes to stderr", "write stderr, or the name of a file"))
	}
	return append(found, checkSite(c.Site)...)
}

// checkSite holds that the site is one line: it is part of what makes an
// installation ours, and a stray line end would make every node another's.
func checkSite(site string) []finding {
	switch trimmed := strings.TrimSpace(site); {
	case strings.ContainsFunc(trimmed, unicode.IsControl):
		return []finding{mistake("site", "holds a line end or a control character", "write a name of one line")}
	case trimmed != site:
		return []finding{warning("site", "begins or ends with white space, which is left out", "take it out")}
	}
	return nil
}

// checkFeatures holds that there is one model of trust, pki or ed25519, and that
// each feature has the keys it needs.
func checkFeatures(c *Config) []finding {
	var found []finding
	f := c.Features
	if f.PKI && f.ED25519 {
		found = append(found, mistake("features.pki", "pki and ed25519 exclude each other", "turn one of them off: pki is for a certificate authority, ed25519 for an Organization Issuer"))
	}
	if f.JWT && c.JWTVerifyCert == "" {
		why := "features.jwt"
		if f.ED25519 {
			why = "features.ed25519"
		}
		found = append(found, mistake("jwt_verify_cert", "is missing; "+why+" needs it", "name the public key or certificate that verifies provisioning.jwt, or write the Organization Issuer's public key as 64 hex digits").because(why))
	}
	if f.ED25519 && c.JWTSigningKey == "" {
		found = append(found, mistake("jwt_signing_key", "is missing; features.ed25519 needs it", "name the file that holds the ed25519 seed which signs server JWTs").because("features.ed25519"))
	}
	if f.PKI && len(c.CertDenyList) == 0 {
		found = append(found, warning("cert_deny_list", "is empty: the default patterns apply", "take it out; to deny no name at all, write the one pattern `^$`"))
	}
	return append(found, checkInsecure(c)...)
}

// checkInsecure warns about features whose nodes an insecure provisioner would
// not reach.
func checkInsecure(c *Config) []finding {
	if !c.Insecure {
		return nil
	}
	var found []finding
	if c.Features.PKI {
		found = append(found, warning("choria_insecure", "turns TLS off, while features.pki gives nodes certificates: a broker that demands TLS refuses us", "take choria_insecure out, unless the provisioning network has no TLS"))
	}
	if c.Features.ED25519 {
		found = append(found, warning("choria_insecure", "an Organization Issuer's nodes speak a protocol that an insecure provisioner does not: no node would be found", "take choria_insecure out, or turn features.ed25519 off"))
	}
	return found
}

// checkUnread names what is set and would be read by nothing.
func checkUnread(c *Config) []finding {
	var found []finding
	for _, row := range []struct {
		key    string
		unread bool
		why    string
		remedy string
	}{
		{"jwt_verify_cert", c.JWTVerifyCert != "" && !c.Features.JWT, "is read by nothing while features.jwt is off: no provisioning.jwt is verified", "turn features.jwt on, or take it out"},
		{"jwt_signing_key", c.JWTSigningKey != "" && !c.Features.ED25519, "is read by nothing while features.ed25519 is off: no server JWT is issued", "turn features.ed25519 on, or take it out"},
		{"jwt_signing_token", c.JWTSigningToken != "" && !c.Features.ED25519, "is read by nothing while features.ed25519 is off", "turn features.ed25519 on, or take it out"},
		{"upgrades_repository", c.UpgradesRepository != "" && !c.Features.Upgrades, "is read by nothing while features.upgrades is off", "turn features.upgrades on, or take it out"},
	} {
		if row.unread {
			found = append(found, warning(row.key, row.why, row.remedy))
		}
	}
	return found
}
