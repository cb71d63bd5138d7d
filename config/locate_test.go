package config

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestTheFirstNameForTheFileCounts(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, flag, variable string
		exist                []string
		want                 string
	}{
		{"flag", "a.yaml", "b.yaml", []string{DefaultFile}, "a.yaml"},
		{"environment", "", "b.yaml", []string{DefaultFile}, "b.yaml"},
		{"default", "", "", []string{DefaultFile, PeerFile}, DefaultFile},
		{"the peer's when only that exists", "", "", []string{PeerFile}, PeerFile},
		{"nothing exists", "", "", nil, DefaultFile},
	}
	for _, test := range tests {
		got := locate(test.flag, environment("PROVISION_CONFIG", test.variable), func(path string) bool { return slices.Contains(test.exist, path) })
		if got != test.want {
			t.Errorf("%s: got %s, want %s", test.name, got, test.want)
		}
	}
}

func TestTheFirstNameForTheStateDirectoryCounts(t *testing.T) {
	t.Parallel()
	all := []string{"PROVISION_STATE_DIR", "/variable", "STATE_DIRECTORY", "/systemd:/other", "XDG_STATE_HOME", "/xdg", "HOME", "/home/me"}
	tests := []struct {
		name      string
		overrides Overrides
		key, want string
	}{
		{"flag", Overrides{StateDir: "/flag", Getenv: environment(all...)}, "/key", "/flag"},
		{"variable", Overrides{Keys: testKeys, Getenv: environment(all...)}, "/key", "/variable"},
		{"key", Overrides{Keys: testKeys, Getenv: environment(all[2:]...)}, "/key", "/key"},
		{"the first of systemd's", Overrides{Keys: testKeys, Getenv: environment(all[2:]...)}, "", "/systemd"},
		{"root", Overrides{Root: true, Getenv: environment(all[4:]...)}, "", "/var/lib/choria-provision"},
		{"XDG", Overrides{Keys: testKeys, Getenv: environment(all[4:]...)}, "", "/xdg/choria-provision"},
		{"a relative XDG does not count", Overrides{Keys: testKeys, Getenv: environment("XDG_STATE_HOME", "xdg", "HOME", "/home/me")}, "", "/home/me/.local/state/choria-provision"},
		{"home", Overrides{Keys: testKeys, Getenv: environment(all[6:]...)}, "", "/home/me/.local/state/choria-provision"},
		{"no home", Overrides{Keys: testKeys, Getenv: environment("HOME", "")}, "", ""},
		{"a relative home", Overrides{Keys: testKeys, Getenv: environment("HOME", "me")}, "", ""},
	}
	for _, test := range tests {
		if got := stateDir(test.overrides, test.key); got != test.want {
			t.Errorf("%s: got %s, want %s", test.name, got, test.want)
		}
	}
	dir := t.TempDir()
	nowhere := Overrides{Keys: testKeys, Getenv: environment("HOME", "")}
	if _, _, err := Load(write(t, dir, "helper: /bin/true\n"), nowhere); err == nil || !strings.Contains(err.Error(), "neither $XDG_STATE_HOME nor $HOME") {
		t.Errorf("a user without home: got %v, want an error that asks for state_dir", err)
	}
	if got := stateDir(Overrides{StateDir: "state", Getenv: environment()}, ""); !filepath.IsAbs(got) || filepath.Base(got) != "state" {
		t.Errorf("got %s, want an absolute path", got)
	}
}
