package config

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestAPeersFileLoadsUnchanged(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/peer.yaml")
	if err != nil {
		t.Fatal(err)
	}
	dir := site(t)
	cfg, warnings, err := Load(write(t, dir, string(text)), Overrides{Keys: testKeys, Getenv: environment("HOME", dir)})
	if err != nil {
		t.Fatal(err)
	}

	want := Default()
	want.File = filepath.Join(dir, "provision.yaml")
	want.Workers = 20
	want.Interval = Duration{10 * time.Minute}
	want.LogFile = filepath.Join(dir, "provisioner.log")
	want.LogLevel = "warn"
	want.Helper = Command{Line: dir + "/helper --site 'Amsterdam 2'", Args: []string{dir + "/helper", "--site", "Amsterdam 2"}}
	want.Token = NewSecret("0451e9")
	want.Site = "ams2"
	want.MonitorPort = 9100
	want.BrokerPassword = NewSecret("s3cret: #1")
	want.JWTVerifyCert = issuerHex
	want.JWTSigningKey = filepath.Join(dir, "seed")
	want.JWTSigningToken = filepath.Join(dir, "chain.jwt")
	want.ServerJWTValidity = Duration{2 * 365 * 24 * time.Hour}
	want.LeaderElection = true
	want.UpgradesRepository = "https://repo.example.net/choria"
	want.UpgradesOptional = true
	want.Features = Features{JWT: true, ED25519: true, Upgrades: true}
	want.StateDir = filepath.Join(dir, ".local/state/choria-provision")
	want.CertDenyList = nil
	list := sources(cfg.CertDenyList)
	cfg.CertDenyList = nil

	if diff := cmp.Diff(want, cfg, cmp.AllowUnexported(Secret{}), cmpopts.IgnoreUnexported(Config{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{`\.privileged.mcollective$`, `/\.mcollective$/`}, list); diff != "" {
		t.Errorf("deny list (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"broker_port", "rego_policy", "leader_election_name", "features.broker"}, keysIn(warnings)); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}

func keysIn(problems []Problem) []string {
	var keys []string
	for _, p := range problems {
		keys = append(keys, p.Key)
	}
	return keys
}

func TestED25519TurnsJWTOn(t *testing.T) {
	t.Parallel()
	cfg, _ := load(t, "helper: DIR/helper\njwt_verify_cert: DIR/issuer.pub\njwt_signing_key: DIR/seed\njwt_signing_token: DIR/chain.jwt\nfeatures: {ed25519: true}\n")
	if !cfg.Features.JWT {
		t.Error("got jwt off, want it on")
	}
}

func TestKeyFilesOfEveryKindAreAccepted(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"DIR/public.pem", "DIR/issuer.pub", "ISSUER"} {
		if _, warnings := load(t, "helper: DIR/helper\ntoken: x\njwt_verify_cert: "+key+"\nfeatures: {jwt: true}\n"); len(warnings) > 0 {
			t.Errorf("%s: got %v, want nothing to say", key, warnings)
		}
	}
}

func TestTheIssuerItselfMaySignWithoutToken(t *testing.T) {
	t.Parallel()
	text := "helper: DIR/helper\ntoken: x\njwt_signing_key: DIR/seed\nfeatures: {ed25519: true}\njwt_verify_cert: " + publicHex(seedOf('p')) + "\n"
	if _, warnings := load(t, text); len(warnings) > 0 {
		t.Errorf("got %v, want nothing to say", warnings)
	}
}

func TestAFileOthersCanReadIsWarnedOf(t *testing.T) {
	t.Parallel()
	dir := site(t)
	path := write(t, dir, "helper: DIR/helper\ntoken: x\n")
	tests := []struct {
		name string
		mode os.FileMode
		want string
	}{
		{"private", 0o600, ""},
		{"for a group", 0o640, ""},
		{"readable", 0o644, "can be read by everybody on this machine"},
		{"writable", 0o666, "can be changed by everybody on this machine"},
	}
	for _, test := range tests {
		if err := os.Chmod(path, test.mode); err != nil {
			t.Fatal(err)
		}
		_, warnings, err := Load(path, Overrides{Keys: testKeys, Getenv: environment()})
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if len(warnings) > 0 {
			got = warnings[0].Text
		}
		if got != test.want || len(warnings) > 1 {
			t.Errorf("%s: got %v, want %q", test.name, warnings, test.want)
		}
	}
}

func TestLogDestinationsOfThePeer(t *testing.T) {
	t.Parallel()
	for word, want := range map[string]string{"stderr": "", "stdout": "", "discard": os.DevNull} {
		cfg, _ := load(t, "helper: DIR/helper\nlogfile: "+word+"\n")
		if cfg.LogFile != want {
			t.Errorf("%s: got %q, want %q", word, cfg.LogFile, want)
		}
	}
}
