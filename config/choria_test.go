package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/choria-io/go-choria/protocol"
	"github.com/google/go-cmp/cmp"
)

// client writes a Choria client configuration of the lines given.
// client writes a Choria client configuration, which names a broker.
func client(t *testing.T, lines ...string) string {
	t.Helper()
	if !strings.Contains(strings.Join(lines, "\n"), "plugin.choria.middleware_hosts") {
		lines = append(lines, "plugin.choria.middleware_hosts = nats://localhost:4222")
	}
	return clientFile(t, lines...)
}

func clientFile(t *testing.T, lines ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "client.conf")
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestTheChoriaConfigurationGetsOurOverrides(t *testing.T) {
	t.Parallel()
	cfg, _ := load(t, "helper: DIR/helper\nloglevel: warn\nlogfile: DIR/log\nbroker_provisioning_password: pa55\ndiscovery_timeout: 2500ms\nconnect_timeout: 6s\n")
	file := client(t, "identity = provisioner.mcollective", "collectives = mcollective,choria", "main_collective = choria", "loglevel = debug",
		"logfile = /var/log/choria.log", "plugin.security.provider = file", "plugin.nats.user = somebody", "discovery_timeout = 9")
	made, warnings, err := cfg.Choria(file, environment("USER", "me"))
	if err != nil || len(warnings) > 0 {
		t.Fatalf("got %v and error %v, want nothing to say", warnings, err)
	}
	got := []any{made.Collectives, made.MainCollective, made.LogLevel, made.LogFile, made.DiscoveryTimeout, made.Choria.NetworkConnectTimeout,
		made.Choria.NatsUser, made.Choria.NatsPass, made.Choria.SecurityProvider, made.DisableTLS, made.OverrideCertname}
	want := []any{[]string{"provisioning"}, "provisioning", "warn", cfg.LogFile, 3, 3 * time.Second, "provisioner", "pa55", "file", false, "provisioner.mcollective"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestInsecureTurnsTLSAndSignaturesOff(t *testing.T) { // not in parallel: the switch is the process's
	before := protocol.Secure
	t.Cleanup(func() { protocol.Secure = before })
	cfg, _ := load(t, "helper: DIR/helper\nchoria_insecure: true\n")
	made, warnings, err := cfg.Choria(client(t, "plugin.security.provider = puppet"), environment())
	if err != nil || len(warnings) > 0 {
		t.Fatalf("got %v and error %v, want nothing to say", warnings, err)
	}
	got := []any{made.DisableTLS, made.Choria.SecurityProvider, protocol.Secure, made.LogFile, made.OverrideCertname == made.Identity}
	if diff := cmp.Diff([]any{true, "file", "false", "stderr", true}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestCredentialsBesideInsecureAreWarnedOf(t *testing.T) { // not in parallel: the switch is the process's
	before := protocol.Secure
	t.Cleanup(func() { protocol.Secure = before })
	for option, warned := range map[string]bool{"plugin.security.file.ca = /ca.pem": true, "plugin.security.choria.token_file = /me.jwt": true, "plugin.security.provider = file": false} {
		cfg, _ := load(t, "helper: DIR/helper\ntoken: x\nchoria_insecure: true\n")
		_, warnings, err := cfg.Choria(client(t, "identity = me", option), environment("USER", "me"))
		if err != nil || (len(warnings) > 0) != warned {
			t.Fatalf("%s: got %v and error %v, want a warning: %v", option, warnings, err, warned)
		}
		if warned && (warnings[0].Key != "choria_insecure" || !strings.Contains(warnings[0].Text, strings.Fields(option)[0])) {
			t.Errorf("%s: got %v, want a warning that names both keys", option, warnings[0])
		}
	}
}

func TestTheCertificateNameIsLeftAloneWhereItMust(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		lines []string
		env   []string
	}{
		{"no identity: $USER.mcollective is what its certificate says", []string{"plugin.security.provider = file"}, []string{"USER", "me"}},
		{"another provider", []string{"identity = me", "plugin.security.provider = puppet"}, []string{"USER", "me"}},
		{"the environment names one", []string{"identity = me", "plugin.security.provider = file"}, []string{"MCOLLECTIVE_CERTNAME", "me"}},
	}
	cfg, _ := load(t, "helper: DIR/helper\nbroker_provisioning_password: x\n")
	for _, test := range tests {
		made, _, err := cfg.Choria(client(t, test.lines...), environment(test.env...))
		if err != nil || made.OverrideCertname != "" {
			t.Errorf("%s: got %q and error %v, want no override", test.name, made.OverrideCertname, err)
		}
	}
}

func TestAChoriaConfigurationThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, file, want string }{
		{"missing", filepath.Join(t.TempDir(), "none.conf"), "there is no such Choria client configuration; name one with --choria-config"},
		{"a directory", t.TempDir(), "is not a file"},
		{"no $USER", client(t, "identity = me", "plugin.security.provider = choria"), "needs $USER, which is not set"},
		{"refused by go-choria", client(t, "identity = me", "plugin.security.client_anon_tls = true"), "anonymous TLS can only be enabled when a remote signer is configured"},
	}
	cfg, _ := load(t, "helper: DIR/helper\nbroker_provisioning_password: x\n")
	for _, test := range tests {
		_, _, err := cfg.Choria(test.file, environment())
		var invalid *Invalid
		if !errors.As(err, &invalid) || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), test.file) {
			t.Errorf("%s: got %v, want *Invalid with %q and the file's name", test.name, err, test.want)
		}
	}
}

func TestAPasswordFileThatWentAwayIsToldWithItsKey(t *testing.T) {
	t.Parallel()
	dir := site(t)
	cfg, _, err := Load(write(t, dir, "helper: DIR/helper\nbroker_provisioning_password_file: DIR/secret\n"), Overrides{Keys: testKeys, Getenv: environment()})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "secret")); err != nil {
		t.Fatal(err)
	}
	if _, _, err := cfg.Choria(client(t, "identity = me"), environment()); err == nil || !strings.Contains(err.Error(), "broker_provisioning_password") {
		t.Errorf("got %v, want an error that names the key", err)
	}
}

func TestMistakesThatOnlyShowLaterAreWarnedOf(t *testing.T) {
	t.Parallel()
	const base = "helper: DIR/helper\ntoken: x\n"
	const issuer = base + "broker_provisioning_password: x\njwt_verify_cert: DIR/public.pem\njwt_signing_key: DIR/seed\nfeatures: {ed25519: true}\n"
	rsa := strings.Replace(issuer, "DIR/seed", "DIR/private.pem", 1)
	choria := []string{"identity = me", "plugin.security.provider = choria", "plugin.security.issuer.names = org"}
	tests := []struct {
		name, text string
		lines      []string
		env        []string
		want       string
	}{
		{"no broker password", base, []string{"identity = me", "plugin.security.provider = file"}, nil, "production account, where no node waits"},
		{"a NATS login of one's own is no mistake", base, []string{"identity = me", "plugin.security.provider = file", "plugin.nats.user = provisioner"}, nil, ""},
		{"certificate name from the environment", base + "broker_provisioning_password: x\n", []string{"identity = me"}, []string{"MCOLLECTIVE_CERTNAME", "you"}, `makes us "you" and not "me"`},
		{"the wrong provider for an issuer", issuer + "jwt_signing_token: DIR/chain.jwt\n", []string{"identity = me", "plugin.security.provider = file"}, nil, "no node would be found"},
		{"no chain to any issuer", issuer, append(choria, "plugin.security.issuer.org.public = "+issuerHex), nil, "refused by the broker (Authorization Violation)"},
		{"the issuer itself signs", issuer, append(choria, "plugin.security.issuer.org.public = "+publicHex(seedOf('p'))), nil, ""},
		{"an RSA key that the broker knows", rsa, []string{"identity = me", "plugin.security.provider = file"}, nil, ""},
		{"an RSA key under an issuer", rsa, append(choria, "plugin.security.issuer.org.public = "+issuerHex), nil, "refused by the broker (Authorization Violation)"},
		{"a chain", issuer + "jwt_signing_token: DIR/chain.jwt\n", append(choria, "plugin.security.issuer.org.public = "+issuerHex), nil, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			cfg, _ := load(t, test.text)
			_, warnings, err := cfg.Choria(client(t, test.lines...), environment(append(test.env, "USER", "me")...))
			if err != nil {
				t.Fatal(err)
			}
			switch {
			case test.want == "" && len(warnings) > 0:
				t.Errorf("got %v, want nothing to say", warnings)
			case test.want != "" && (len(warnings) != 1 || !strings.Contains(warnings[0].String(), test.want)):
				t.Errorf("got %v, want one warning with %q", warnings, test.want)
			}
		})
	}
}

func TestConfigurationFilesOfTheWorkingDirectoryAreNotMerged(t *testing.T) { // not in parallel: it changes the directory
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "choria.conf"), []byte("identity = stranger\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, _ := load(t, "helper: DIR/helper\nbroker_provisioning_password: x\n")
	file := client(t, "identity = me")
	t.Chdir(dir)
	made, _, err := cfg.Choria(file, environment())
	if err != nil || made.Identity != "me" {
		t.Errorf("got identity %q and error %v, want me", made.Identity, err)
	}
}

// A pipe is what the shell makes of --choria-config <(...).
func TestChoriaConfigurationMayComeThroughAPipe(t *testing.T) {
	t.Parallel()
	cfg, _ := load(t, "helper: DIR/helper\nbroker_provisioning_password: x\n")
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { reader.Close() })
	if _, err := writer.WriteString("identity = piped\nplugin.choria.middleware_hosts = nats://localhost:4222\n"); err != nil {
		t.Fatal(err)
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	path := fmt.Sprintf("/dev/fd/%d", reader.Fd())
	made, _, err := cfg.Choria(path, environment())
	if err != nil {
		t.Fatal(err)
	}
	if made.Identity != "piped" || !cmp.Equal(made.Choria.MiddlewareHosts, []string{"nats://localhost:4222"}) || made.ConfigFile != path {
		t.Errorf("got identity %q, brokers %v and file %q, want what was piped", made.Identity, made.Choria.MiddlewareHosts, made.ConfigFile)
	}
}

func TestBrokersThatAreLookedForAreNamed(t *testing.T) {
	t.Parallel()
	cfg, _ := load(t, "helper: DIR/helper\nbroker_provisioning_password: pa55\n")
	for _, tt := range []struct {
		lines []string
		want  string
	}{
		{nil, "SRV records _mcollective-server._tcp of the domain that facter knows are used, else puppet:4222"},
		{[]string{"plugin.choria.srv_domain = example.net"}, "SRV records _mcollective-server._tcp of example.net are used, else puppet:4222"},
		{[]string{"plugin.choria.use_srv = false"}, "plugin.choria.use_srv is off: puppet:4222 is used"},
		{[]string{"plugin.choria.federation.collectives = east"}, ""},
	} {
		_, problems, err := cfg.Choria(clientFile(t, append(tt.lines, "identity = me", "plugin.security.provider = puppet")...), environment("USER", "me"))
		said := (&Invalid{problems}).Error()
		if err != nil || (tt.want == "") != (len(problems) == 0) || !strings.Contains(said, tt.want) {
			t.Errorf("%v: got %q, %v, want %q", tt.lines, said, err, tt.want)
		}
	}
}
