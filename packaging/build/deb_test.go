package main

import (
	"debug/elf"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// debRoot is an empty root directory with a database of dpkg.
func debRoot(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	for _, dir := range []string{"var/lib/dpkg/info", "var/lib/dpkg/updates", "etc"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{"var/lib/dpkg/status", "var/lib/dpkg/available"} {
		write(t, filepath.Join(root, file), "")
	}
	write(t, filepath.Join(root, "etc/passwd"), "root:x:0:0::/root:/bin/sh\n")
	write(t, filepath.Join(root, "etc/group"), "root:x:0:\n")
	return root
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// dpkg works below root; package scripts run with DPKG_ROOT set, outside.
func dpkg(t *testing.T, root string, args ...string) {
	t.Helper()
	needs(t, "dpkg")
	if os.Geteuid() != 0 {
		t.Skip("dpkg gives files to their owners: root only")
	}
	all := append([]string{"--root=" + root, "--log=/dev/null", "--force-script-chrootless", "--force-confold"}, args...)
	mustRun(t, "dpkg", all...)
}

// newer packs the program of a built deb again as a later version, in which the
// example configuration changed.
func newer(t *testing.T, root string) string {
	t.Helper()
	s, err := openSource("../..")
	if err != nil {
		t.Fatal(err)
	}
	s.version = "99.0.0"
	entries, err := readContents(s.root)
	if err != nil {
		t.Fatal(err)
	}
	for i := range entries {
		if entries[i].config {
			entries[i].data = append(entries[i].data, "# newer\n"...)
		}
	}
	program, err := os.ReadFile(filepath.Join(root, "usr/bin/provision"))
	if err != nil {
		t.Fatal(err)
	}
	out := t.TempDir()
	entries = append(entries, entry{path: "/usr/bin/provision", mode: 0o755, group: "root", data: program})
	if err := pack(s, target{"deb", "amd64", out}, entries); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(out, "choria-provision_99.0.0-1_amd64.deb")
}

// ids returns user and group of a path.
func ids(t *testing.T, path string) (uint32, uint32) {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	stat := info.Sys().(*syscall.Stat_t)
	return stat.Uid, stat.Gid
}

func mode(t *testing.T, path string) fs.FileMode {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode().Perm()
}

func gone(t *testing.T, path string) {
	t.Helper()
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s is there (%v)", path, err)
	}
}

func TestDebFromInstallationToPurge(t *testing.T) {
	t.Parallel()
	root := debRoot(t)
	at := func(path string) string { return filepath.Join(root, path) }
	example, state := at("etc/choria-provision/provision.yaml.example"), at("var/lib/choria-provision")

	dpkg(t, root, "--install", built(t, "*_amd64.deb"))
	if got := static(t, at("usr/bin/provision")); got != elf.EM_X86_64 {
		t.Errorf("the program is for %s", got)
	}
	checkInstalled(t, root)
	user, group := ids(t, state)
	if _, got := ids(t, at("etc/choria-provision")); user == 0 || group == 0 || got != group {
		t.Errorf("state belongs to %d:%d, the configuration to group %d", user, group, got)
	}
	for path, want := range map[string]fs.FileMode{"etc/choria-provision": 0o750, "var/lib/choria-provision": 0o700, "usr/share/choria-provision/helpers/helper.sh": 0o755} {
		if got := mode(t, at(path)); got != want {
			t.Errorf("%s: got mode %o, want %o", path, got, want)
		}
	}

	write(t, example, "site: changed\n")
	write(t, at("etc/choria-provision/provision.yaml"), "site: mine\n")
	write(t, filepath.Join(state, "state.db"), "records")
	dpkg(t, root, "--install", newer(t, root))
	for path, want := range map[string]string{example: "site: changed\n", at("etc/choria-provision/provision.yaml"): "site: mine\n", filepath.Join(state, "state.db"): "records"} {
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			t.Errorf("after the upgrade %s holds %q (%v), want %q", path, got, err, want)
		}
	}

	dpkg(t, root, "--remove", "choria-provision")
	gone(t, at("usr/bin/provision"))
	mode(t, example)
	mode(t, state)

	dpkg(t, root, "--purge", "choria-provision")
	gone(t, example)
	gone(t, state)
	gone(t, at("var/log/choria-provision"))
	mode(t, at("etc/choria-provision/provision.yaml")) // an operator's file stays
}

// checkInstalled holds that everything is in its place and no unit is enabled.
func checkInstalled(t *testing.T, root string) {
	t.Helper()
	for _, path := range []string{
		"etc/logrotate.d/choria-provision", "usr/lib/systemd/system/provision.service", "usr/lib/systemd/system/provision.timer",
		"usr/lib/systemd/system/provision-watch.service", "usr/lib/sysusers.d/choria-provision.conf", "usr/lib/tmpfiles.d/choria-provision.conf",
		"usr/share/man/man8/provision.8.gz", "usr/share/man/man5/provision.yaml.5.gz", "usr/share/bash-completion/completions/provision",
		"usr/share/zsh/site-functions/_provision", "usr/share/fish/vendor_completions.d/provision.fish",
		"usr/share/doc/choria-provision/LICENSE", "usr/share/doc/choria-provision/copyright", "usr/share/doc/choria-provision/CHANGELOG.md",
	} {
		mode(t, filepath.Join(root, path))
	}
	enabled, err := filepath.Glob(filepath.Join(root, "etc/systemd/system/*.wants/*"))
	if err != nil || len(enabled) > 0 {
		t.Errorf("enabled units: %v (%v)", enabled, err)
	}
	if s, err := openSource("../.."); err == nil {
		got := mustRun(t, filepath.Join(root, "usr/bin/provision"), "version")
		for _, want := range []string{"provision " + s.version + "\n", "commit    " + s.commit + "\n"} {
			if !strings.Contains(got, want) {
				t.Errorf("the version is %q, want %q in it", got, want)
			}
		}
	}
}

func TestDebForARM64HoldsAStaticProgram(t *testing.T) {
	t.Parallel()
	needs(t, "dpkg-deb")
	root := t.TempDir()
	mustRun(t, "dpkg-deb", "--extract", built(t, "*_arm64.deb"), root)
	if got := static(t, filepath.Join(root, "usr/bin/provision")); got != elf.EM_AARCH64 {
		t.Errorf("the program is for %s", got)
	}
}
