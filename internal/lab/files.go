package lab

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/google/renameio/v2"
	"github.com/kballard/go-shellquote"
)

// brokerPassword opens the provisioning account. It is no secret: a user who can
// reach the lab runs on this machine.
const brokerPassword = "provisioning-password"

// The clients that have credentials of their own.
const (
	provisionerName = "provisioner"
	verifierName    = "verifier" // in production, to see who is there
	recordsName     = "records"  // reads and writes the shared records
)

// clientName is the identity of a client; brokers and servers of a pki network
// take only such names for clients.
func clientName(name string) string { return name + ".mcollective" }

// settings are keys of a Choria configuration file.
type settings map[string]string

func (s settings) with(more settings) settings {
	all := maps.Clone(s)
	maps.Copy(all, more)
	return all
}

func (s settings) save(path string) error {
	var text strings.Builder
	for _, key := range slices.Sorted(maps.Keys(s)) {
		if s[key] != "" {
			fmt.Fprintf(&text, "%s = %s\n", key, s[key])
		}
	}
	return renameio.WriteFile(path, []byte(text.String()), 0o600)
}

// clientSettings are a client's whole configuration.
func clientSettings(s site, n model, name string) settings {
	return settings{
		"identity":                       clientName(name),
		"loglevel":                       "warn",
		"logfile":                        "stderr",
		"plugin.choria.middleware_hosts": s.Broker,
		"plugin.choria.use_srv":          "false",
	}.with(n.client(name))
}

// writeFiles writes what provisioner, helper and clients need.
func (l *Lab) writeFiles(_ context.Context, o Options) error {
	if err := l.site.save(l.dir); err != nil {
		return err
	}
	token := make([]byte, 16)
	if _, err := rand.Read(token); err != nil {
		return err
	}
	l.choria = clientSettings(l.site, l.model, provisionerName)
	l.config = map[string]any{
		"site":      "lab",
		"state_dir": l.StateDir(),
		"token":     "token-" + hex.EncodeToString(token),
		// The first of many servers that share two cores may take its time.
		"discovery_timeout": "10s",
	}
	var err error
	if l.config["helper"], err = l.helper(o.Helper); err != nil {
		return err
	}
	maps.Copy(l.config, l.model.provisioner())
	if l.releases != nil {
		l.config["upgrades_repository"] = l.releases.url
		l.config["features"].(map[string]any)["upgrades"] = true
	}
	if err := clientSettings(l.site, l.model, verifierName).save(filepath.Join(l.dir, "verifier.conf")); err != nil {
		return err
	}
	if err := l.SetChoria(nil); err != nil {
		return err
	}
	return l.SetConfig(nil)
}

// helper is the command line to configure; a relative path is made absolute,
// since the provisioner may be started anywhere.
func (l *Lab) helper(line string) (string, error) {
	if line == "" {
		return shellquote.Join(filepath.Join(l.dir, "bin", helperName)), nil
	}
	words, err := shellquote.Split(line)
	if err != nil || len(words) == 0 {
		return "", fmt.Errorf("the helper's command line %q: %w", line, err)
	}
	if strings.Contains(words[0], "/") {
		if words[0], err = filepath.Abs(words[0]); err != nil {
			return "", err
		}
	}
	return shellquote.Join(words...), nil
}

// SetConfig writes provision.yaml as Start did, with the given keys on top; a
// nil value leaves its key out.
func (l *Lab) SetConfig(keys map[string]any) error {
	all := maps.Clone(l.config)
	maps.Copy(all, keys)
	maps.DeleteFunc(all, func(_ string, value any) bool { return value == nil })
	text, err := yaml.Marshal(all)
	if err != nil {
		return err
	}
	return renameio.WriteFile(l.ConfigFile(), text, 0o600)
}

// SetChoria writes the provisioner's Choria client configuration as Start did,
// with the given keys on top; an empty value leaves its key out. The lab's
// keys/stranger-ca.pem is a CA that signed nothing here.
func (l *Lab) SetChoria(keys map[string]string) error {
	return l.choria.with(keys).save(l.ChoriaFile())
}

// makeNode makes the directory of a server that was never started.
func (l *Lab) makeNode(dir, name, jwt string) error {
	path := nodeDir(l.dir, dir)
	if err := os.Mkdir(path, 0o700); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if err := os.Symlink(self, filepath.Join(path, serverName)); err != nil {
		return err
	}
	seed := settings{
		"identity":                 name,
		"plugin.security.provider": "file",
		"plugin.choria.use_srv":    "false",
	}
	if err := seed.save(filepath.Join(path, seedFile)); err != nil {
		return err
	}
	return saveFiles(path, map[string][]byte{jwtFile: []byte(jwt)})
}
