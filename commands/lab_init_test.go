package commands

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"choria-provision/internal/lab"
)

// TestWhatInitWritesProvisions fills in a site's values, those of a lab, as the
// documents say, and brings a server into service.
func TestWhatInitWritesProvisions(t *testing.T) {
	t.Parallel()
	for enrollment, files := range map[string]map[string]string{ // by name, from the lab's keys
		lab.Insecure: {"signer.pem": "signer.pem"},
		lab.PKI:      {"signer.pem": "signer.pem", "provisioner.pem": "provisioner.pem", "provisioner.key": "provisioner.key", "ca.pem": "ca.pem", "ca/ca.pem": "ca.pem", "ca/ca.key": "ca.key"},
		lab.Issuer:   {"provisioner.seed": "provisioner.seed", "provisioner.jwt": "provisioner.jwt"},
	} {
		t.Run(enrollment, func(t *testing.T) {
			t.Parallel()
			l := startLab(t, lab.Options{Nodes: 1, Enrollment: enrollment})
			dir := filepath.Join(t.TempDir(), "etc")
			if r := runIn(t, l, "init", "--dir", dir, "--enrollment", enrollment); r.code != 0 {
				t.Fatal(r.stderr)
			}
			key := func(name string) string { return document(t, filepath.Join(l.Dir(), "keys", name)) }
			for to, from := range files {
				putFile(t, filepath.Join(dir, to), key(from))
			}
			putFile(t, filepath.Join(dir, "token"), labSetting(t, l, "token"))
			if enrollment != lab.Insecure {
				putFile(t, filepath.Join(dir, "broker-password"), labSetting(t, l, "broker_provisioning_password"))
			}
			replaceIn(t, filepath.Join(dir, "client.conf"), "nats://broker.example.net:4222", l.BrokerURL())
			replaceIn(t, filepath.Join(dir, "helper.sh"), "nats://broker.example.net:4222", l.BrokerURL())
			if enrollment == lab.Issuer {
				none, issuer := strings.Repeat("0", 64), strings.TrimSpace(key("issuer.public"))
				replaceIn(t, filepath.Join(dir, "provision.yaml"), none, issuer)
				replaceIn(t, filepath.Join(dir, "helper.sh"), none, issuer)
			}
			for _, command := range [][]string{{"config", "check"}, {"once"}} {
				cmd, stdout, stderr := provisionCommand(t, l, command...)
				cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "USER=operator", "PROVISION_CONFIG=" + filepath.Join(dir, "provision.yaml"), "PROVISION_STATE_DIR=" + l.StateDir()}
				if r := ended(t, cmd.Run(), stdout, stderr); r.code != 0 {
					t.Fatalf("%v: got exit code %d\n%s%s", command, r.code, r.stdout, r.stderr)
				}
			}
			if got := inService(t, l); len(got) != 1 {
				t.Errorf("in service: %v, want the node", got)
			}
		})
	}
}

func putFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// replaceIn keeps the file's mode.
func replaceIn(t *testing.T, path, from, to string) {
	t.Helper()
	text := document(t, path)
	if !strings.Contains(text, from) {
		t.Fatalf("%s does not hold %s", path, from)
	}
	if err := os.WriteFile(path, []byte(strings.ReplaceAll(text, from, to)), 0o600); err != nil {
		t.Fatal(err)
	}
}
