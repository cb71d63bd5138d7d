package config

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// loadWith loads text with the overrides o, whose environment is a test's own.
func loadWith(t *testing.T, dir, text string, o Overrides) (*Config, []Problem) {
	t.Helper()
	o.Getenv = environment()
	cfg, warnings, err := Load(write(t, dir, text), o)
	if err != nil {
		t.Fatalf("got %v, want a usable configuration", err)
	}
	return cfg, warnings
}

func TestLogNeverGoesToStdout(t *testing.T) {
	t.Parallel()
	dir := site(t)
	link := filepath.Join(dir, "link")
	if err := os.Symlink("/dev/stdout", link); err != nil {
		t.Fatal(err)
	}
	result := filepath.Join(dir, "result.json")
	if err := os.WriteFile(result, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	same := filepath.Join(dir, "same")
	if err := os.Symlink(result, same); err != nil {
		t.Fatal(err)
	}
	stdout, err := os.Stat(result)
	if err != nil {
		t.Fatal(err)
	}
	null, err := os.Stat(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, logfile string
		stdout        fs.FileInfo
		want          string
		warned        bool
	}{
		{"word", "stdout", nil, "", true},
		{"device", "/dev/stdout", nil, "", true},
		{"not clean", "/dev/../dev//stdout", nil, "", true},
		{"descriptor", "/dev/fd/1", nil, "", true},
		{"process", "/proc/self/fd/1", nil, "", true},
		{"thread", "/proc/thread-self/fd/1", nil, "", true},
		{"link", link, nil, "", true},
		{"the file stdout was sent to", result, stdout, "", true},
		{"a link to it", same, stdout, "", true},
		{"another file", result, null, result, false},
		{"stderr", "/dev/stderr", stdout, "", false},
		{"descriptor of stderr", "/proc/self/fd/2", nil, "", false},
		{"discarded like the result", os.DevNull, null, os.DevNull, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			cfg, warnings := loadWith(t, site(t), "helper: DIR/helper\ntoken: x\nlogfile: "+test.logfile+"\n", Overrides{Stdout: test.stdout})
			if cfg.LogFile != test.want {
				t.Errorf("got %q, want %q", cfg.LogFile, test.want)
			}
			if warned := len(warnings) == 1 && strings.Contains(warnings[0].Text, "stdout carries the result"); warned != test.warned {
				t.Errorf("got %v, want a warning: %v", warnings, test.warned)
			}
		})
	}
}
