package main

import (
	"debug/elf"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/CycloneDX/cyclonedx-go"
)

// output is the directory of packages built from the work tree, once for all
// tests; its parent goes at the end.
var output = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "provision-packages-")
	if err != nil {
		return "", err
	}
	_, err = buildAll("../..", filepath.Join(dir, "out"))
	return filepath.Join(dir, "out"), err
})

func TestMain(m *testing.M) {
	code := m.Run()
	if dir, _ := output(); dir != "" {
		os.RemoveAll(filepath.Dir(dir))
	}
	os.Exit(code)
}

// built returns the path of the one file that was built and matches pattern.
func built(t *testing.T, pattern string) string {
	t.Helper()
	dir, err := output()
	if err != nil {
		t.Fatal(err)
	}
	found, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(found) != 1 {
		t.Fatalf("%s: got %v (%v), want one file", pattern, found, err)
	}
	return found[0]
}

// needs skips a test where a tool is missing, and fails it in CI.
func needs(t *testing.T, tool string) {
	t.Helper()
	_, err := exec.LookPath(tool)
	switch {
	case err == nil:
	case os.Getenv("CI") != "":
		t.Fatalf("CI has no %s: .ci/run installs it", tool)
	default:
		t.Skipf("there is no %s on this machine", tool)
	}
}

func mustRun(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := run(".", nil, name, args...)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

func TestSameCommitGivesSameBytes(t *testing.T) {
	t.Parallel()
	var sums [2]string
	for i := range sums {
		clone := filepath.Join(t.TempDir(), "clone")
		mustRun(t, "git", "clone", "--quiet", "../..", clone)
		out := filepath.Join(clone, "bin", "packages")
		if _, err := buildAll(clone, out); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(out, "SHA256SUMS"))
		if err != nil {
			t.Fatal(err)
		}
		sums[i] = string(text)
	}
	if sums[0] != sums[1] {
		t.Errorf("two builds of one commit differ:\n%s\n%s", sums[0], sums[1])
	}
	if got := strings.Count(sums[0], "\n"); got != 7 {
		t.Errorf("got %d checksums, want 7 (2 deb, 2 rpm, 2 SBOM, 1 image):\n%s", got, sums[0])
	}
}

func TestChecksumsVerify(t *testing.T) {
	t.Parallel()
	sums := built(t, "SHA256SUMS")
	if _, err := run(filepath.Dir(sums), nil, "sha256sum", "--check", "--strict", sums); err != nil {
		t.Error(err)
	}
}

func TestSBOMNamesModulesAndVersion(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(built(t, "*_arm64.cdx.json"))
	if err != nil {
		t.Fatal(err)
	}
	var bom cyclonedx.BOM
	if err := json.Unmarshal(text, &bom); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, c := range *bom.Components {
		got[c.Name] = c.Version
	}
	if got["github.com/choria-io/go-choria"] != "v0.30.2" || got["std"] == "" {
		t.Errorf("got go-choria %q and std %q", got["github.com/choria-io/go-choria"], got["std"])
	}
	s, err := openSource("../..")
	if err != nil {
		t.Fatal(err)
	}
	if main := bom.Metadata.Component; main.Name != "choria-provision" || main.Version != s.version {
		t.Errorf("the SBOM is of %s %s, want choria-provision %s", main.Name, main.Version, s.version)
	}
}

// static fails when a program needs a loader, and returns its machine.
func static(t *testing.T, path string) elf.Machine {
	t.Helper()
	file, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for _, p := range file.Progs {
		if p.Type == elf.PT_INTERP {
			t.Errorf("%s is linked dynamically", path)
		}
	}
	return file.Machine
}
