package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestRelativePathsCountFromTheFile loads a file of another directory than the
// working one.
func TestRelativePathsCountFromTheFile(t *testing.T) {
	t.Parallel()
	dir := site(t)
	hex := strings.Repeat("ab", 32)
	for name, text := range map[string]string{"token": "t0ken", "password": "pa55", "push": "s3cret", "records.conf": "identity = me\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	file := write(t, dir, "helper: ./helper --from 'a b'\ntoken_file: token\nbroker_provisioning_password_file: ./password\nlogfile: provision.log\n"+
		"state_dir: ../state\nmetrics_textfile: node.prom\nrecords: streams\nrecords_choria_config: records.conf\njwt_verify_cert: "+hex+"\n"+
		"pushgateway:\n  url: http://localhost:9091\n  username: me\n  password_file: push\n")
	cfg, _, err := Load(file, Overrides{Keys: testKeys, Getenv: environment()})
	if err != nil {
		t.Fatal(err)
	}
	token, err := cfg.Token.Reveal()
	if err != nil {
		t.Error(err)
	}
	got := []string{token, cfg.Helper.Args[0], cfg.LogFile, cfg.StateDir, cfg.MetricsTextfile, cfg.RecordsChoria, cfg.Pushgateway.PasswordFile, cfg.JWTVerifyCert, cfg.Helper.Args[2]}
	in := func(name string) string { return filepath.Join(dir, name) }
	want := []string{"t0ken", in("helper"), in("provision.log"), in("../state"), in("node.prom"), in("records.conf"), in("push"), hex, "a b"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if line := in("helper") + " --from 'a b'"; cfg.Helper.Line != line {
		t.Errorf("got the command line %q, want %q", cfg.Helper.Line, line)
	}

	cfg, _, err = Load(file, Overrides{Keys: testKeys, Getenv: environment("PROVISION_STATE_DIR", "state")})
	if err != nil {
		t.Fatal(err)
	}
	if got := absolute("state"); cfg.StateDir != got {
		t.Errorf("got $PROVISION_STATE_DIR as %s, want %s: it counts from the working directory", cfg.StateDir, got)
	}
}

func TestWordsAndNamesAreNoPaths(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ logfile, want string }{{"stderr", ""}, {"stdout", ""}, {"discard", os.DevNull}} {
		cfg, _ := load(t, "helper: sh\nlogfile: "+tt.logfile+"\n", "PATH", os.Getenv("PATH"), "HOME", t.TempDir())
		if cfg.LogFile != tt.want || cfg.Helper.Args[0] != "sh" {
			t.Errorf("%s: got log file %q and helper %q, want %q and sh", tt.logfile, cfg.LogFile, cfg.Helper.Args[0], tt.want)
		}
	}
}
