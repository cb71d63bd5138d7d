package commands

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"choria-provision/internal/lab"

	"github.com/choria-io/tokens"
	"github.com/google/go-cmp/cmp"
	natsd "github.com/nats-io/nats-server/v2/server"
)

// startPage is the page whose commands a reader types one after the other.
const startPage = "docs/getting-started.md"

// gettingStarted reports whether TestGettingStarted runs the block.
func gettingStarted(b codeBlock) bool {
	return b.page == startPage && b.language == "sh" && !slices.ContainsFunc(docRuns, func(d docRun) bool { return d.page == b.page && d.first == b.first() })
}

// journey is the way of one kind of network through the page.
type journey struct {
	enrollment, section string
	keys                []string // those of the lab that take the place of the site's, by file name
}

var journeys = []journey{
	{lab.Issuer, "organization-issuer", []string{"issuer.seed", "issuer.public"}},
	{lab.PKI, "certificate-authority", []string{"ca.pem", "ca.key", "signer.pem", "signer.key"}},
	{lab.Insecure, "no-tls", []string{"signer.pem", "signer.key"}},
}

// stubs stand for what takes root and the package's user.
const stubs = `chgrp() { :; }
install() { case "$1" in -g) shift 2 ;; esac; command install "$@"; }
runuser() { shift 3; "$@"; }
provision() { if [ "$1" = init ]; then set -- "$@" --dir "$ETC"; fi; command provision "$@"; }
`

// TestGettingStarted types the page's commands for each kind of network, in
// order, in one shell, and has the lab confirm that the nodes are in service.
func TestGettingStarted(t *testing.T) {
	t.Parallel()
	for _, j := range journeys {
		t.Run(j.enrollment, func(t *testing.T) {
			t.Parallel()
			l := startLab(t, lab.Options{Nodes: 1, Enrollment: j.enrollment})
			etc := filepath.Join(t.TempDir(), "etc")
			cmd, out := shell(t, stubs+j.script(t, l, etc))
			cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "USER=operator", "ETC=" + etc, "PROVISION_CONFIG=" + filepath.Join(etc, "provision.yaml"), "PROVISION_STATE_DIR=" + l.StateDir()}
			if err := cmd.Run(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			if strings.Contains(out.String(), "warning") {
				t.Errorf("got a warning, want none\n%s", out)
			}
			if got := inService(t, l); len(got) != 1 {
				t.Errorf("in service: %v, want the node\n%s", got, out)
			}
			want, got := provisioningClaims(t, filepath.Join(l.Dir(), "nodes", "node1.example.net")), provisioningClaims(t, filepath.Join(cmd.Dir, "site"))
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("provisioning.jwt is not like that of the node in the lab (-want +got):\n%s", diff)
			}
		})
	}
}

// provisioningClaims are the claims of a directory's provisioning.jwt by which a
// node finds the broker and lets itself be configured.
func provisioningClaims(t *testing.T, dir string) []any {
	t.Helper()
	claims, err := tokens.ParseProvisionTokenUnverified(document(t, filepath.Join(dir, "provisioning.jwt")))
	if err != nil {
		t.Fatal(err)
	}
	return []any{claims.Token, claims.URLs, claims.ProvDefault, claims.ProtoV2, claims.Secure, claims.OrganizationUnit}
}

// script joins the blocks of the journey. Keys that a lab has already are put in
// place as soon as the commands have made others, so that all later commands use
// them.
func (j journey) script(t *testing.T, l *lab.Lab, etc string) string {
	t.Helper()
	lines := []string{}
	replace := func(name, text string) {
		path := filepath.Join(t.TempDir(), filepath.Base(name))
		putFile(t, path, text)
		lines = append(lines, "cp "+path+" "+name)
	}
	put := func() {
		for _, name := range j.keys {
			replace(name, document(t, filepath.Join(l.Dir(), "keys", name)))
		}
	}
	blocks := slices.DeleteFunc(codeBlocks(t), func(b codeBlock) bool { return !gettingStarted(b) })
	for _, section := range []string{"prepare", j.section, "the-first-node"} {
		for i, b := range slices.DeleteFunc(slices.Clone(blocks), func(b codeBlock) bool { return b.section != section }) {
			if section == j.section && i == 0 && j.enrollment == lab.Issuer {
				put() // the site has them before
			}
			lines = append(lines, b.text)
			switch {
			case section == "prepare":
				replace("token", labSetting(t, l, "token"))
				if j.enrollment != lab.Insecure {
					replace("broker-password", labSetting(t, l, "broker_provisioning_password"))
				}
			case section == j.section && i == 0 && j.enrollment != lab.Issuer:
				put()
			}
		}
	}
	broker := strings.TrimPrefix(l.BrokerURL(), "nats://")
	return strings.NewReplacer("BROKER=broker.example.net:4222", "BROKER="+broker, "/etc/choria-provision", etc).Replace(strings.Join(lines, "\n"))
}

// TestDocumentedBrokerStarts reads the configuration of the broker without TLS as
// a NATS server does, with the certificate of the commands above it.
func TestDocumentedBrokerStarts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, b := range codeBlocks(t) {
		if b.page != startPage || b.section != "no-tls" {
			continue
		}
		switch {
		case b.language == "text":
			file := filepath.Join(dir, "nats.conf")
			putFile(t, file, strings.ReplaceAll(b.text, "/etc/nats", dir))
			o, err := natsd.ProcessConfigFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if !o.AllowNonTLS || o.TLSConfig == nil || o.Port != 4222 {
				t.Errorf("got a server on port %d with TLS %v, without it %v; want both on 4222", o.Port, o.TLSConfig != nil, o.AllowNonTLS)
			}
			return
		case strings.Contains(b.text, "tls.key"):
			cmd, out := shell(t, b.text)
			cmd.Dir = dir
			if err := cmd.Run(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
		}
	}
	t.Error("found no configuration of a NATS server")
}
