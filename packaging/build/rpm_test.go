package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// rpm works on a root directory of its own.
func rpm(t *testing.T, root string, args ...string) string {
	t.Helper()
	needs(t, "rpm")
	return mustRun(t, "rpm", append([]string{"--root", root, "--dbpath", "/var/lib/rpm"}, args...)...)
}

func TestRPMListsAndVerifies(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "etc"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(root, "etc/passwd"), "root:x:0:0::/root:/bin/sh\nchoria-provision:x:991:991::/:/sbin/nologin\n")
	write(t, filepath.Join(root, "etc/group"), "root:x:0:\nchoria-provision:x:991:\n")
	for _, arch := range []string{"x86_64", "aarch64"} {
		file := built(t, "*."+arch+".rpm")
		rpm(t, root, "--checksig", "--nosignature", file)
		if got := rpm(t, root, "--query", "--package", "--queryformat", "%{NAME} %{ARCH} %{LICENSE} %{BUILDHOST}", file); got != "choria-provision "+arch+" Apache-2.0 localhost" {
			t.Errorf("got %q", got)
		}
		list := rpm(t, root, "--query", "--list", "--package", file)
		for _, want := range []string{"/usr/bin/provision", "/etc/choria-provision", "/usr/share/man/man8/provision.8.gz"} {
			if !strings.Contains(list, want+"\n") {
				t.Errorf("%s lists no %s:\n%s", filepath.Base(file), want, list)
			}
		}
		if got, want := rpm(t, root, "--query", "--configfiles", "--package", file), "/etc/choria-provision/provision.yaml.example\n/etc/logrotate.d/choria-provision\n"; got != want {
			t.Errorf("configuration files: got %q, want %q", got, want)
		}
	}
	if os.Geteuid() != 0 {
		t.Skip("rpm installs as root only")
	}
	// There is no shell in this root: the scripts stay out.
	rpm(t, root, "--install", "--nodeps", "--noscripts", built(t, "*.x86_64.rpm"))
	checkInstalled(t, root)
	rpm(t, root, "--verify", "--nodeps", "--noscripts", "choria-provision")
	if _, group := ids(t, filepath.Join(root, "etc/choria-provision")); group != 991 {
		t.Errorf("the configuration belongs to group %d, want 991", group)
	}
}

func TestScriptsParse(t *testing.T) {
	t.Parallel()
	scripts, err := filepath.Glob("../scripts/*.sh")
	if err != nil || len(scripts) != 4 {
		t.Fatalf("got %v (%v), want four scripts", scripts, err)
	}
	for _, script := range append(scripts, "../install.sh") {
		mustRun(t, "sh", "-n", script)
	}
}
