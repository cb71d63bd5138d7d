package config

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// scalars are texts that must keep their bytes, whatever YAML would make of them.
var scalars = []struct{ name, source, want string }{
	{"leading zero", "0123", "0123"},
	{"octal", "0o17", "0o17"},
	{"hexadecimal", "0x10", "0x10"},
	{"binary", "0b11", "0b11"},
	{"exponent", "12345e67", "12345e67"},
	{"exponent with point", "1.50e+3", "1.50e+3"},
	{"trailing zero", "1.50", "1.50"},
	{"underscores", "1_000", "1_000"},
	{"many digits", "123456789012345678901234567890", "123456789012345678901234567890"},
	{"plus", "+1", "+1"},
	{"minus zero", "-0", "-0"},
	{"infinity", ".inf", ".inf"},
	{"no number", ".NaN", ".NaN"},
	{"yes", "yes", "yes"},
	{"no", "NO", "NO"},
	{"on", "On", "On"},
	{"true", "true", "true"},
	{"True", "True", "True"},
	{"date", "2024-01-01", "2024-01-01"},
	{"time", "2001-12-14t21:59:43.10-05:00", "2001-12-14t21:59:43.10-05:00"},
	{"sexagesimal", "12:30:45", "12:30:45"},
	{"address", "127.0.0.1", "127.0.0.1"},
	{"colon", "a:b", "a:b"},
	{"hash within", "a#b", "a#b"},
	{"comment", "a # b", "a"},
	{"inner spaces", "a  b", "a  b"},
	{"non-ASCII", "Zürich ✓", "Zürich ✓"},
	{"single quotes", "' it''s '", " it's "},
	{"double quotes", `"a\tb\u00e9\\"`, "a\tbé\\"},
	{"quoted null", "'~'", "~"},
	{"backslash", `a\nb`, `a\nb`},
	{"tagged", "!!str 0123", "0123"},
	{"anchored", "&x 0123", "0123"},
	{"literal", "|\n  a\n  b\n", "a\nb"},
	{"folded", ">-\n  a\n  b\n", "a b"},
}

func TestTextArrivesByteForByte(t *testing.T) {
	t.Parallel()
	for _, test := range scalars {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			cfg, _ := load(t, "helper: DIR/helper\nlogfile: "+test.source+"\ntoken: "+test.source+"\n")
			if want := filepath.Join(filepath.Dir(cfg.File), test.want); cfg.LogFile != want {
				t.Errorf("logfile: got %q, want %q", cfg.LogFile, want)
			}
			token, err := cfg.Token.Reveal()
			if err != nil || token != test.want {
				t.Errorf("token: got %q and error %v, want %q", token, err, test.want)
			}
		})
	}
}

func TestTextInListsAndMappingsArrivesByteForByte(t *testing.T) {
	t.Parallel()
	cfg, _ := load(t, `
helper: DIR/helper 0123 1_0 yes
broker_provisioning_password: 0x1F
cert_deny_list: [0123, yes, 1.50, '/a\.b/']
pushgateway:
  url: http://localhost:9091
  username: 007
  password_file: DIR/secret
  grouping: {zone: 010, on: off}
  headers:
    X-Number: 1_000
    X-Date: 2024-01-01
`)
	password, _ := cfg.BrokerPassword.Reveal()
	got := []any{cfg.Helper.Args[1:], password, sources(cfg.CertDenyList), cfg.Pushgateway.Username, cfg.Pushgateway.Grouping, map[string]string(cfg.Pushgateway.Headers)}
	want := []any{[]string{"0123", "1_0", "yes"}, "0x1F", []string{"0123", "yes", "1.50", `/a\.b/`}, "007",
		map[string]string{"zone": "010", "on": "off"}, map[string]string{"X-Number": "1_000", "X-Date": "2024-01-01"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if last := cfg.CertDenyList[3]; !last.MatchString("xa.b") || last.MatchString("/a.b/"[:2]) {
		t.Errorf("got expression %s, want it without slashes", last)
	}
}

func sources(patterns []Pattern) []string {
	var list []string
	for _, p := range patterns {
		list = append(list, p.Source)
	}
	return list
}

func TestNothingMeansNotSet(t *testing.T) {
	t.Parallel()
	for _, nothing := range []string{"", "~", "null"} {
		cfg, _ := load(t, strings.ReplaceAll("helper: DIR/helper\nsite: NIL\nworkers: NIL\ninterval: NIL\nleader_election: NIL\ncert_deny_list: NIL\nfeatures: NIL\npushgateway: NIL\n", "NIL", nothing))
		got := []any{cfg.Site, cfg.Workers, cfg.Interval, len(cfg.CertDenyList), cfg.Features, cfg.Pushgateway.Job}
		want := []any{"", runtime.NumCPU(), Duration{time.Minute}, 4, Features{}, "choria_provision"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", nothing, diff)
		}
	}
}

func TestBooleansMayBeThePeersWords(t *testing.T) {
	t.Parallel()
	for word, want := range map[string]bool{"true": true, "yes": true, "On": true, "y": true, "false": false, "NO": false, "off": false, "n": false} {
		cfg, _ := load(t, "helper: DIR/helper\nleader_election: "+word+"\n")
		if cfg.LeaderElection != want {
			t.Errorf("%s: got %v, want %v", word, cfg.LeaderElection, want)
		}
	}
}

func TestAliasesAreFollowed(t *testing.T) {
	t.Parallel()
	cfg, _ := load(t, "helper: DIR/helper\nsite: &name 0123\nupgrades_optional: true\npushgateway:\n  url: http://localhost:9091\n  grouping: {zone: *name}\n")
	if got := cfg.Pushgateway.Grouping["zone"]; got != "0123" {
		t.Errorf("got %q, want 0123", got)
	}
}

func TestWindowsLineEndsAndByteOrderMarkDoNoHarm(t *testing.T) {
	t.Parallel()
	cfg, _ := load(t, "\xef\xbb\xbfhelper: DIR/helper\r\nsite: 0123\r\ntoken: x\r\n")
	if token, _ := cfg.Token.Reveal(); cfg.Site != "0123" || token != "x" {
		t.Errorf("got site %q and token %q, want 0123 and x", cfg.Site, token)
	}
}

// FuzzNoFileMakesLoadPanic also holds that every answer is a usable
// configuration or a list of problems with places.
func FuzzNoFileMakesLoadPanic(f *testing.F) {
	mistakes, err := filepath.Glob("testdata/mistakes/*.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range append(mistakes, "testdata/peer.yaml") {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	dir := site(f)
	f.Fuzz(func(t *testing.T, text string) {
		path := filepath.Join(t.TempDir(), "provision.yaml")
		if err := os.WriteFile(path, []byte(strings.ReplaceAll(text, "DIR", dir)), 0o600); err != nil {
			t.Fatal(err)
		}
		cfg, problems, err := Load(path, Overrides{Keys: testKeys, Getenv: environment()})
		var invalid *Invalid
		switch {
		case err == nil && cfg == nil:
			t.Error("got neither configuration nor error")
		case err != nil && !errors.As(err, &invalid):
			t.Errorf("got %v, want *Invalid", err)
		case err != nil:
			problems = invalid.Problems
		}
		lines := strings.Count(text, "\n") + 1
		for _, p := range problems {
			if p.Line < 1 || p.Line > lines || p.Column < 1 || p.Text == "" || p.Remedy == "" {
				t.Errorf("got %+v in a file of %d lines, want place, text and remedy", p, lines)
			}
		}
	})
}
