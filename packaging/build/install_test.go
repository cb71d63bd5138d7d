package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestInstallFollowsPrefixAndKeepsConfiguration(t *testing.T) {
	t.Parallel()
	needs(t, "dpkg-deb")
	tree := t.TempDir() // has the program where `make build` puts it
	mustRun(t, "cp", "-r", "../../packaging", "../../docs", "../../examples", "../../LICENSE", "../../CHANGELOG.md", tree)
	extracted := t.TempDir()
	mustRun(t, "dpkg-deb", "--extract", built(t, "*_amd64.deb"), extracted)
	env := []string{"DESTDIR=" + filepath.Join(t.TempDir(), "stage"), "PREFIX=/opt/choria"}
	stage := strings.TrimPrefix(env[0], "DESTDIR=")

	if _, err := run(tree, env, "packaging/install.sh"); err == nil || !strings.Contains(err.Error(), "run `make build` first") {
		t.Errorf("without a program: got %v", err)
	}
	if err := os.Mkdir(filepath.Join(tree, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	mustRun(t, "cp", filepath.Join(extracted, "usr/bin/provision"), filepath.Join(tree, "bin/provision"))
	if _, err := run(tree, env, "packaging/install.sh"); err != nil {
		t.Fatal(err)
	}
	unit, err := os.ReadFile(filepath.Join(stage, "opt/choria/lib/systemd/system/provision.service"))
	if err != nil || !strings.Contains(string(unit), "ExecStart=/opt/choria/bin/provision once") {
		t.Errorf("the unit does not follow the prefix (%v):\n%s", err, unit)
	}
	example := filepath.Join(stage, "etc/choria-provision/provision.yaml.example")
	write(t, example, "site: changed\n")
	if _, err := run(tree, env, "packaging/install.sh"); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(example); err != nil || string(got) != "site: changed\n" {
		t.Errorf("got %q (%v): the changed configuration was not kept", got, err)
	}
	packaged := installedPaths(t, extracted, "usr")
	for path := range installedPaths(t, stage, "opt/choria") {
		if !packaged[path] && !packaged[path+".gz"] {
			t.Errorf("%s is in no package", path)
		}
	}
}

// installedPaths returns the files below root/prefix.
func installedPaths(t *testing.T, root, prefix string) map[string]bool {
	t.Helper()
	paths := map[string]bool{}
	base := filepath.Join(root, prefix)
	for _, path := range strings.Fields(mustRun(t, "find", base, "-type", "f")) {
		paths[strings.TrimPrefix(path, base)] = true
	}
	return paths
}
