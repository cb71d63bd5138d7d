package config

import (
	"bufio"
	"bytes"
	"crypto/ed25519"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"regexp"
	"strings"
	"time"

	choriaconfig "github.com/choria-io/go-choria/config"
	"github.com/choria-io/go-choria/srvcache"
	"github.com/choria-io/tokens"
)

// checkChoriaFile holds what a Choria client configuration says against what
// go-choria makes of it when it connects, without connecting. Files it names
// are read: a key that does not belong to its certificate, or a CA file without
// certificate, otherwise shows only as a handshake that fails.
func (c *Config) checkChoriaFile(cfg *choriaconfig.Config) []Problem {
	found := checkBrokers(cfg)
	if !c.Insecure && !cfg.Choria.ClientAnonTLS { // both connect without these files
		switch cfg.Choria.SecurityProvider {
		case "file":
			found = append(found, checkFileProvider(cfg)...)
		case "choria":
			found = append(found, checkChoriaProvider(cfg)...)
		}
		found = append(found, checkUnusedFiles(cfg)...)
	}
	problems := make([]Problem, len(found))
	for i, f := range found {
		f.File = cfg.ConfigFile
		f.Line, f.Column = lineOf(cfg.ConfigFile, f.Key)
		problems[i] = f.Problem
	}
	return problems
}

// checkBrokers parses the broker addresses as go-choria does.
func checkBrokers(cfg *choriaconfig.Config) []finding {
	const key = "plugin.choria.middleware_hosts"
	if len(cfg.Choria.MiddlewareHosts) == 0 {
		return unnamedBrokers(cfg)
	}
	var found []finding
	for _, host := range cfg.Choria.MiddlewareHosts {
		host = strings.TrimSpace(host)
		if _, err := srvcache.StringHostsToServers([]string{host}, "nats"); err == nil {
			continue
		}
		hint := "write HOST:PORT or nats://HOST:PORT, an IPv6 address between brackets"
		if bare := strings.Trim(host, "[]"); net.ParseIP(bare) != nil && strings.Contains(bare, ":") {
			hint = fmt.Sprintf("write nats://[%s]:4222", bare)
		} else if !strings.Contains(host, ":") {
			hint = fmt.Sprintf("write the port too, such as %s:4222", host)
		}
		found = append(found, mistake(key, fmt.Sprintf("%q is no broker's address", host), hint))
	}
	return found
}

// unnamedBrokers tells which brokers go-choria looks for by itself. A federation
// has names of its own.
func unnamedBrokers(cfg *choriaconfig.Config) []finding {
	const key, remedy = "plugin.choria.middleware_hosts", "write the broker's HOST:PORT"
	domain := "the domain that facter knows"
	if cfg.Choria.SRVDomain != "" {
		domain = cfg.Choria.SRVDomain
	}
	switch {
	case len(cfg.Choria.FederationCollectives) > 0:
		return nil
	case cfg.Choria.UseSRVRecords:
		return []finding{warning(key, "is missing: SRV records _mcollective-server._tcp of "+domain+" are used, else puppet:4222", remedy)}
	default:
		return []finding{warning(key, "is missing and plugin.choria.use_srv is off: puppet:4222 is used", remedy)}
	}
}

// checkFileProvider knows go-choria's provider file: certificate, key and CA are
// required (go-choria says so), and requests are signed with RSA keys only.
func checkFileProvider(cfg *choriaconfig.Config) []finding {
	const prefix = "plugin.security.file."
	pair := tlsFiles{prefix, cfg.Choria.FileSecurityCertificate, cfg.Choria.FileSecurityKey, cfg.Choria.FileSecurityCA}
	found := pair.check(time.Now())
	if key := pair.privateKey(); key != nil && !isRSA(key) {
		found = append(found, mistake(prefix+"key", absolute(pair.key)+" is no RSA key, and the provider file signs requests with RSA only", "make an RSA key and a certificate for it"))
	}
	return found
}

// checkChoriaProvider knows go-choria's provider choria: token and seed are
// required; certificate, key and CA are not, and one that does not exist is
// passed over without a word.
func checkChoriaProvider(cfg *choriaconfig.Config) []finding {
	const prefix = "plugin.security.choria."
	found := checkClientToken(cfg.Choria.ChoriaSecurityTokenFile, cfg.Choria.ChoriaSecuritySeedFile)
	pair := tlsFiles{prefix, cfg.Choria.ChoriaSecurityCertificate, cfg.Choria.ChoriaSecurityKey, cfg.Choria.ChoriaSecurityCA}
	for _, row := range []struct {
		key  string
		path *string
		lost string
	}{
		{prefix + "certificate", &pair.certificate, "we connect without certificate"},
		{prefix + "key", &pair.key, "we connect without certificate"},
		{prefix + "ca", &pair.ca, "the broker's certificate is not verified"},
	} {
		if missing(*row.path) {
			found = append(found, warning(row.key, fmt.Sprintf("%s does not exist: %s", absolute(*row.path), row.lost), "create it, or take the key out"))
			*row.path = ""
		}
	}
	return append(found, pair.check(time.Now())...)
}

// checkClientToken holds that our token can be used and belongs to the seed.
func checkClientToken(tokenFile, seedFile string) []finding {
	const tokenKey, seedKey = "plugin.security.choria.token_file", "plugin.security.choria.seed_file"
	if tokenFile == "" || seedFile == "" {
		return nil // go-choria says so
	}
	token, problem := readKeyFile(tokenKey, tokenFile)
	if problem != nil {
		return asList(problem)
	}
	seed, problem := readKeyFile(seedKey, seedFile)
	if problem != nil {
		return asList(problem)
	}
	found := append(checkAccess(tokenKey, tokenFile), checkAccess(seedKey, seedFile)...)
	found = append(found, checkHexSeed(seedKey, seedFile, seed)...)
	claims, err := tokens.ParseClientIDTokenUnverified(strings.TrimSpace(string(token)))
	if err != nil {
		return append(found, mistake(tokenKey, absolute(tokenFile)+" holds no client token", "name the provisioner's JWT"))
	}
	found = append(found, checkClientClaims(tokenKey, tokenFile, claims)...)
	if public := seedPublic(seed); public != "" && len(found) == 0 && !strings.EqualFold(claims.PublicKey, public) {
		found = append(found, mistake(seedKey, "belongs to another key than the token in "+absolute(tokenFile), "name the token and the seed of the same provisioner"))
	}
	return found
}

// checkClientClaims warns about a token with which brokers refuse us.
func checkClientClaims(key, path string, claims *tokens.ClientIDClaims) []finding {
	switch {
	case claims.ExpiresAt != nil && claims.IsExpired():
		return []finding{warning(key, absolute(path)+" expired on "+claims.ExpireTime().UTC().Format("2006-01-02"), "have a new one made")}
	case claims.Permissions == nil || !claims.Permissions.ServerProvisioner:
		return []finding{warning(key, absolute(path)+" does not permit provisioning: brokers refuse it in the provisioning account", "have one made with the server provisioner permission")}
	}
	return nil
}

// checkUnusedFiles warns about credentials that are named for another provider
// than the one in use, and that do not exist: a sign of the wrong provider.
func checkUnusedFiles(cfg *choriaconfig.Config) []finding {
	var found []finding
	for _, provider := range []string{"file", "choria"} {
		for _, name := range []string{"certificate", "key", "ca", "token_file", "seed_file"} {
			key := "plugin.security." + provider + "." + name
			if path := cfg.Option(key, ""); provider != cfg.Choria.SecurityProvider && missing(path) {
				found = append(found, warning(key, fmt.Sprintf("%s does not exist, and plugin.security.provider is %s, which does not use it", absolute(path), cfg.Choria.SecurityProvider), "take the key out, or set plugin.security.provider to "+provider))
			}
		}
	}
	return found
}

func missing(path string) bool {
	if path == "" {
		return false
	}
	_, err := os.Stat(path)
	return os.IsNotExist(err)
}

// lineOf returns where a key of a Choria configuration stands, the last one
// counting as it does for go-choria; zeros when it is not in this file.
func lineOf(file, key string) (line, column int) {
	info, err := os.Stat(file)
	if err != nil || !info.Mode().IsRegular() || key == "" {
		return 0, 0
	}
	opened, err := os.Open(file)
	if err != nil {
		return 0, 0
	}
	defer opened.Close()
	given := regexp.MustCompile(`^` + regexp.QuoteMeta(key) + `\s*=`)
	scanner := bufio.NewScanner(opened)
	for n := 1; scanner.Scan(); n++ {
		if given.MatchString(scanner.Text()) {
			line, column = n, 1
		}
	}
	return line, column
}

// seedPublic returns the public half of a hex ed25519 seed, in hex, or "".
func seedPublic(text []byte) string {
	seed, err := hex.DecodeString(string(bytes.TrimSpace(text)))
	if err != nil || len(seed) != ed25519.SeedSize {
		return ""
	}
	return hex.EncodeToString(ed25519.NewKeyFromSeed(seed).Public().(ed25519.PublicKey))
}

// checkHexSeed requires that a file is one hex encoded ed25519 seed.
func checkHexSeed(key, path string, text []byte) []finding {
	text = bytes.TrimSpace(text)
	_, err := hex.DecodeString(string(text))
	switch {
	case tokens.IsEncodedEd25519Key(text):
		return nil
	case len(text) > 0 && (err == nil || errors.Is(err, hex.ErrLength)):
		return []finding{mistake(key, fmt.Sprintf("%s holds %d hex digits; an ed25519 seed has 64", absolute(path), len(text)), "put the whole seed into it")}
	}
	return []finding{mistake(key, absolute(path)+" holds no ed25519 seed", "put the seed into it as 64 hex digits")}
}
