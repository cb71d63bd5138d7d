package commands

import (
	"path/filepath"
	"strings"
	"testing"

	"choria-provision/internal/lab"
)

// A site without Organization Issuer may give its brokers the certificate of
// the key that signs server JWTs (plugin.choria.network.server_signer_cert):
// an RSA key in PEM, as the peer's documentation shows.
func TestServerJWTsMayBeSignedWithAnRSAKey(t *testing.T) {
	t.Parallel()
	l := startLab(t, lab.Options{Nodes: 2, Enrollment: lab.PKI})
	if err := l.SetConfig(map[string]any{
		"features":        map[string]any{"ed25519": true},
		"jwt_signing_key": filepath.Join(l.Dir(), "keys", "signer.key"),
	}); err != nil {
		t.Fatal(err)
	}
	if r := runIn(t, l, "config", "check"); r.code != 0 || !strings.HasSuffix(strings.TrimSpace(r.stdout), "provision.yaml can be used") {
		t.Errorf("got exit code %d and\n%s%s\nwant nothing to say", r.code, r.stdout, r.stderr)
	}
	if r := runIn(t, l, "once"); r.code != 0 || strings.Contains(r.stdout+r.stderr, "warning") {
		t.Errorf("got exit code %d and\n%s%s\nwant 0 without a warning", r.code, r.stdout, r.stderr)
	}
	if got := inService(t, l); len(got) != 2 {
		t.Errorf("in service: %v, want both, with server JWTs that the broker accepts", got)
	}
}
