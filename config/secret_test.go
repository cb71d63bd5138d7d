package config

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

const secretText = "correct-horse-battery"

func TestNoEncodingShowsASecret(t *testing.T) {
	t.Parallel()
	cfg, _ := load(t, strings.ReplaceAll(`
helper: DIR/helper
token: SECRET
broker_provisioning_password: SECRET
pushgateway:
  url: http://localhost:9091
  headers: {Authorization: SECRET}
`, "SECRET", secretText))
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
		if strings.Contains(text, secretText) || strings.Contains(text, fmt.Sprintf("%x", secretText)) {
			t.Errorf("%s shows the secret: %s", name, text)
		}
		if !strings.Contains(text, mask) {
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
