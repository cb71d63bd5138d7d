package commands

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"choria-provision/internal/lab"
)

// exampleHelpers lists the example helpers for networks with credentials.
func exampleHelpers(t *testing.T) []string {
	t.Helper()
	helpers, err := filepath.Glob("../examples/helpers/*")
	if err != nil || len(helpers) != 4 {
		t.Fatalf("found the helpers %q (%v), want two in Python and two in Ruby", helpers, err)
	}
	return append(helpers, "../examples/helper.sh", "../examples/helper-pki.sh")
}

// TestExampleHelpersProvision has each example helper bring two servers of a lab
// into service, after a dry run that asks it.
func TestExampleHelpersProvision(t *testing.T) {
	t.Parallel()
	for _, path := range exampleHelpers(t) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			needsInterpreter(t, path)
			helper, err := filepath.Abs(path)
			if err != nil {
				t.Fatal(err)
			}
			enrollment := lab.Issuer
			if strings.Contains(path, "-pki") {
				enrollment = lab.PKI
			}
			cmd, out := shell(t, `provision lab --nodes 2 --enrollment `+enrollment+` --helper `+helper+` -- bash -euc '
CA=${PROVISION_CONFIG%/*}/keys
ISSUER=$(cat "$CA/issuer.public" || :)
BROKER=$(sed -n "s/.*middleware_hosts = //p" "$PROVISION_CHORIA_CONFIG")
export CA ISSUER BROKER
provision once --dry-run --run-helper
provision once'`)
			if err := cmd.Run(); err != nil || strings.Contains(out.String(), "warning") {
				t.Errorf("got %v, want two servers in service without a warning\n%s", err, out)
			}
		})
	}
}

// needsInterpreter skips the test where the helper's interpreter is not installed;
// .ci/run installs all of them.
func needsInterpreter(t *testing.T, path string) {
	t.Helper()
	line, _, _ := strings.Cut(document(t, path), "\n")
	words := strings.Fields(strings.TrimPrefix(line, "#!"))
	interpreter := words[len(words)-1]
	if _, err := exec.LookPath(interpreter); err != nil {
		t.Skipf("%s is not installed: %v", interpreter, err)
	}
}

// TestExampleHelpersDefer asks the helpers for networks with an issuer about a
// node that they put off.
func TestExampleHelpersDefer(t *testing.T) {
	t.Parallel()
	for _, path := range exampleHelpers(t) {
		if strings.Contains(path, "-pki") {
			continue
		}
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			needsInterpreter(t, path)
			cmd := exec.CommandContext(t.Context(), path)
			cmd.Stdin = strings.NewReader(`{"identity":"a.lab.example.net","csr":null,"ed25519_pubkey":{"public_key":"","signature":"","directory":"/etc/choria"},"inventory":"{}","jwt":null}`)
			out, err := cmd.CombinedOutput()
			if err != nil || !strings.Contains(string(out), "by hand") {
				t.Errorf("got %v and %s, want the node deferred", err, out)
			}
		})
	}
}

// TestExampleHelpersRefuse gives each example helper an input without the keys of
// its kind of network: it says which feature to turn on, and fails the node.
func TestExampleHelpersRefuse(t *testing.T) {
	t.Parallel()
	for _, path := range exampleHelpers(t) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			needsInterpreter(t, path)
			feature := "features.ed25519"
			if strings.Contains(path, "-pki") {
				feature = "features.pki"
			}
			cmd := exec.CommandContext(t.Context(), path)
			cmd.Stdin = strings.NewReader(`{"identity":"web1.example.net","csr":null,"ed25519_pubkey":null,"inventory":"{}","jwt":null}`)
			out, err := cmd.CombinedOutput()
			if err == nil || !strings.Contains(string(out), feature) {
				t.Errorf("got %v and %s, want a failure that names %s", err, out, feature)
			}
		})
	}
}
