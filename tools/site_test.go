package tools

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
)

// site is a lab with real servers that wait, and the product's configuration
// for it, which tests vary.
type site struct {
	dir  string
	base string // provision.yaml as the lab wrote it
}

func startSite(t *testing.T, nodes int) *site {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "lab")
	start(t, "servers wait to be provisioned", "provision", "lab", "--enrollment", "insecure", "--nodes", strconv.Itoa(nodes), "--keep", dir)
	base, err := os.ReadFile(filepath.Join(dir, "provision.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return &site{dir, string(base)}
}

// settings vary the lab's configuration.
type settings struct {
	site   string // "lab" unless noSite
	noSite bool
	helper string
	push   map[string]string // below pushgateway
}

// use writes the configuration that the next runs read.
func (s *site) use(t *testing.T, set settings) {
	t.Helper()
	text := s.base
	replace := func(key, line string) {
		text = regexp.MustCompile(`(?m)^`+key+`: .*\n`).ReplaceAllLiteralString(text, line)
	}
	if set.site != "" || set.noSite {
		replace("site", "site: "+quote(t, set.site)+"\n")
	}
	if set.helper != "" {
		replace("helper", "helper: "+quote(t, set.helper)+"\n")
	}
	if len(set.push) > 0 {
		text += "pushgateway:\n"
	}
	for key, value := range set.push {
		text += fmt.Sprintf("  %s: %s\n", key, quote(t, value))
	}
	if err := os.WriteFile(filepath.Join(s.dir, "provision.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// quote writes a text as JSON, which YAML reads as the same.
func quote(t *testing.T, text string) string {
	t.Helper()
	quoted, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	return string(quoted)
}

// run runs the product on the site.
func (s *site) run(t *testing.T, args ...string) ran {
	t.Helper()
	return run(t, []string{
		"PROVISION_CONFIG=" + filepath.Join(s.dir, "provision.yaml"),
		"PROVISION_CHORIA_CONFIG=" + filepath.Join(s.dir, "client.conf"),
		"PROVISION_STATE_DIR=" + filepath.Join(s.dir, "state"),
		"INVOCATION_ID=",
	}, args...)
}

// idle is a run that finds nobody: it pushes all the same.
func (s *site) idle(t *testing.T) {
	t.Helper()
	if r := s.run(t, "once", "--match", "nobody.example.net"); r.code != 0 {
		t.Fatalf("an idle run: got exit code %d\n%s", r.code, r.stderr)
	}
}
