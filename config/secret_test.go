package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

const secretSample = "correct-horse-battery"

func TestNoEncodingShowsASecret(t *testing.T) {
	t.Parallel()
	cfg, _ := load(t, strings.ReplaceAll(`
helper: DIR/helper
token: SECRET
broker_provisioning_password: SECRET
pushgateway:
  url: http://localhost:9091
  headers: {Authorization: SECRET}
`, "SECRET", secretSample))
	inJSON, err := json.Marshal(cfg)
	if err != nil {
		t.Fatal(err)
	}
	inYAML, err := yaml.Marshal(cfg)
	if err != nil {
		t.Fatal(err)
	}
	shown, err := cfg.JSON()
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"%v": fmt.Sprintf("%v", cfg), "%+v": fmt.Sprintf("%+v", *cfg), "%#v": fmt.Sprintf("%#v", *cfg), "%s": fmt.Sprintf("%s", cfg.Token),
		"%q": fmt.Sprintf("%q", cfg.Token), "%x": fmt.Sprintf("%x", cfg.Token), "%d": fmt.Sprintf("%d", cfg.Token), "%v of headers": fmt.Sprintf("%v", cfg.Pushgateway),
		"json": string(inJSON), "yaml": string(inYAML), "YAML": string(cfg.YAML()), "JSON": string(shown),
	} {
		if strings.Contains(text, secretSample) || strings.Contains(text, fmt.Sprintf("%x", secretSample)) {
			t.Errorf("%s shows the secret: %s", name, text)
		}
		if !strings.Contains(text, Redacted) {
			t.Errorf("%s: got %s, want the mask in it", name, text)
		}
	}
}

func TestASecretsFileIsReadAtEachUse(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "token")
	secret := NewSecretFile(path)
	for _, text := range []string{"first", "second"} {
		if err := os.WriteFile(path, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := secret.Reveal(); err != nil || got != text {
			t.Errorf("got %q and error %v, want %q", got, err, text)
		}
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if got, err := secret.Reveal(); err == nil {
		t.Errorf("got %q from a file that is gone, want an error", got)
	}
}

func TestSecretsComeFromTheirFirstSource(t *testing.T) {
	t.Parallel()
	credentials := t.TempDir()
	for _, name := range []string{"token", "broker_provisioning_password"} {
		if err := os.WriteFile(filepath.Join(credentials, name), []byte("credential\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tests := []struct{ name, keys, credentials, want string }{
		{"in the file", "token: inline\nbroker_provisioning_password: inline\n", credentials, "inline"},
		{"in files of their own", "token_file: DIR/secret\nbroker_provisioning_password_file: DIR/secret\n", credentials, "a secret in a file"},
		{"credentials", "", credentials, "credential"},
		{"an empty directory of credentials", "", t.TempDir(), ""},
		{"nowhere", "", "", ""},
	}
	for _, test := range tests {
		cfg, _ := load(t, "helper: DIR/helper\n"+test.keys, "CREDENTIALS_DIRECTORY", test.credentials)
		for _, secret := range []Secret{cfg.Token, cfg.BrokerPassword} {
			if got, err := secret.Reveal(); err != nil || got != test.want {
				t.Errorf("%s: got %q and error %v, want %q", test.name, got, err, test.want)
			}
		}
	}
}

// Editors put a byte order mark before a text, and line ends of either kind
// behind it: neither is part of a secret.
func TestMarkAndLineEndAreNotPartOfASecret(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"s3cret", "s3cret\n", "s3cret\r\n", "s3cret\r", "\xef\xbb\xbfs3cret\r\n", "\xef\xbb\xbfs3cret\n\n"} {
		dir := site(t)
		if err := os.WriteFile(filepath.Join(dir, "secret"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		cfg, warnings, err := Load(write(t, dir, "helper: DIR/helper\ntoken_file: DIR/secret\n"), Overrides{Keys: testKeys, Getenv: environment()})
		if err != nil || len(warnings) > 0 {
			t.Errorf("%q: got %v and error %v, want nothing to say", text, warnings, err)
			continue
		}
		if got, err := cfg.Token.Reveal(); got != "s3cret" || err != nil {
			t.Errorf("%q: got %q and error %v, want s3cret", text, got, err)
		}
	}
}

func TestStrayBytesInASecretsFileAreNamed(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		fatal bool
		want  string
	}{
		"s3\xffcret":         {true, "holds a byte that is not UTF-8 (0xff, byte 3)"},
		"\xff\xfes\x003\x00": {true, "is UTF-16"},
		"\xef\xbb\xbf\r\n":   {true, "is empty"},
		"s3\x00cret":         {false, "holds a character that is not seen (U+0000)"},
		"s3\u200bcret":       {false, "holds a character that is not seen (U+200B)"},
		"s3cret\u00a0\n":     {false, "holds a character that is not seen (U+00A0)"},
		"s3cret \r\n":        {false, "begins or ends with white space"},
		"s3\ncret\n":         {false, "holds more than one line"},
		"s3\r\ncret\r\n":     {false, "holds more than one line"},
	}
	for text, test := range tests {
		for key, rest := range map[string]string{"token_file": "", "broker_provisioning_password_file": "token: x\n", "pushgateway": "token: x\n"} {
			dir := site(t)
			path := filepath.Join(dir, "secret")
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			line := key + ": DIR/secret\n"
			if key == "pushgateway" {
				line = "pushgateway: {url: 'http://localhost:9091', username: me, password_file: DIR/secret}\n"
			}
			_, problems, err := Load(write(t, dir, "helper: DIR/helper\n"+rest+line), Overrides{Keys: testKeys, Getenv: environment()})
			var invalid *Invalid
			if errors.As(err, &invalid) {
				problems = invalid.Problems
			}
			if (err != nil) != test.fatal || len(problems) != 1 || !strings.Contains(problems[0].Text, path+" "+test.want) {
				t.Errorf("%q as %s: got %v and error %v, want %q, an error: %v", text, key, problems, err, test.want, test.fatal)
			}
		}
	}
}

func TestStrayBytesInACredentialAreNamed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "token"), []byte("s3\u200bcret"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, warnings := load(t, "helper: DIR/helper\n", "CREDENTIALS_DIRECTORY", dir)
	if len(warnings) != 1 || !strings.Contains(warnings[0].Text, "U+200B") {
		t.Errorf("got %v, want a warning of U+200B", warnings)
	}
}
