package commands

import (
	"bytes"
	"crypto/ed25519"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/choria-io/tokens"

	"choria-provision/config"
	"choria-provision/provision/trust"
)

// exampleSite puts the example configuration and all it names into a directory,
// for an Organization Issuer that is the provisioner itself.
func exampleSite(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	key := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize))
	public := key.Public().(ed25519.PublicKey)
	claims, err := tokens.NewClientIDClaims("choria=provisioner", nil, "choria", nil, "", "choria", 2*365*24*time.Hour, nil, public)
	if err != nil {
		t.Fatal(err)
	}
	if err := claims.AddOrgIssuerData(key); err != nil {
		t.Fatal(err)
	}
	jwt, err := tokens.SignToken(claims, key)
	if err != nil {
		t.Fatal(err)
	}
	adjust := strings.NewReplacer("/etc/choria-provision", dir, strings.Repeat("0", 64), hex.EncodeToString(public))
	files := map[string]string{
		"provision.yaml":   adjust.Replace(document(t, "../examples/provision.yaml")),
		"helper.sh":        adjust.Replace(document(t, "../examples/helper.sh")),
		"token":            "shared",
		"broker-password":  "secret",
		"provisioner.seed": strings.Repeat("07", ed25519.SeedSize),
		"provisioner.jwt":  jwt,
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "provision.yaml")
}

func TestExampleConfigurationHasNoProblem(t *testing.T) {
	t.Parallel()
	cfg, problems, err := config.Load(exampleSite(t), config.Overrides{Getenv: os.Getenv, Keys: trust.Keys()})
	if err != nil || len(problems) > 0 {
		t.Fatalf("got %v and %v, want no problem", err, problems)
	}
	if !cfg.Features.ED25519 || cfg.Site != "example" {
		t.Errorf("got features %+v of site %q, want those of the example", cfg.Features, cfg.Site)
	}
}

func TestExampleHelperIsGood(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, identity string
		want           []string
	}{
		{"configures", "web1.example.net", []string{"outcome          configure", "identity = web1.example.net", "token_file = /etc/choria/server.jwt"}},
		{"defers", "a.lab.example.net", []string{"outcome          defer", "by hand"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var out, errs bytes.Buffer
			code := Run(t.Context(), []string{"--config", exampleSite(t), "helper", "run", "--identity", test.identity}, Streams{Out: &out, Err: &errs})
			if code != exitDone || strings.Contains(out.String(), "warning") {
				t.Errorf("got code %d, stderr %q and\n%s\nwant 0 and no warning", code, &errs, &out)
			}
			for _, want := range test.want {
				if !strings.Contains(out.String(), want) {
					t.Errorf("got\n%s\nwant %q in it", &out, want)
				}
			}
		})
	}
}
