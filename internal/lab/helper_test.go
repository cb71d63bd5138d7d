package lab

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// helperDir is as much of a lab's directory as the sample helper needs.
func helperDir(t *testing.T, behaviour string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "issued"), 0o700); err != nil {
		t.Fatal(err)
	}
	s := site{Enrollment: Insecure, Broker: "nats://127.0.0.1:1", Nodes: []string{"n1", "n2"}}
	if err := s.save(dir); err != nil {
		t.Fatal(err)
	}
	if err := saveFiles(dir, map[string][]byte{behaviourFile: []byte(behaviour)}); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestSampleHelperBehaves(t *testing.T) {
	t.Parallel()
	good := map[string]any{"configuration": map[string]any{
		"identity":                       "n1",
		"loglevel":                       "info",
		"plugin.choria.middleware_hosts": "nats://127.0.0.1:1",
		"plugin.choria.server.provision": "0",
		"plugin.choria.use_srv":          "false",
		"plugin.security.provider":       "file",
		"rpcauthorization":               "0",
	}}
	with := func(key string, value any) map[string]any {
		return map[string]any{"configuration": good["configuration"], key: value}
	}
	tests := []struct {
		name, behaviour string
		want            map[string]any
	}{
		{"good", `{}`, good},
		{"only another node behaves", `{"n2": {"do": "defer"}}`, good},
		{"defer", `{"n1": {"do": "defer", "message": "later"}}`, map[string]any{"defer": true, "msg": "later"}},
		{"every node", `{"*": {"do": "defer", "message": "later"}}`, map[string]any{"defer": true, "msg": "later"}},
		{"shutdown", `{"n1": {"do": "shutdown"}}`, map[string]any{"shutdown": true, "msg": "the behaviour file says stop"}},
		{"upgrade", `{"n1": {"do": "upgrade", "version": "2.0"}}`, with("upgrade", "2.0")},
		{"set", `{"n1": {"set": {"ca": "text"}}}`, with("ca", "text")},
		{"left out", `{"n1": {"set": {"configuration": null}}}`, map[string]any{}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			if err := runHelper(helperDir(t, test.behaviour), strings.NewReader(`{"identity": "n1"}`), &out); err != nil {
				t.Fatal(err)
			}
			var got map[string]any
			if err := json.Unmarshal(out.Bytes(), &got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("answer (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSampleHelperAnswersWithAnotherNode(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := runHelper(helperDir(t, `{"n1": {"do": "other"}}`), strings.NewReader(`{"identity": "n1"}`), &out); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), `"identity":"n2"`) {
		t.Errorf("got %s, want the other node's identity", out.String())
	}
}

func TestSampleHelperGarbageIsNoJSON(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := runHelper(helperDir(t, `{"n1": {"do": "garbage"}}`), strings.NewReader(`{"identity": "n1"}`), &out); err != nil {
		t.Fatal(err)
	}
	if out.Len() == 0 || json.Valid(out.Bytes()) {
		t.Errorf("got %q, want something that is no JSON", out.String())
	}
}

func TestSampleHelperFails(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, behaviour, input, want string }{
		{"as told", `{"n1": {"do": "fail", "message": "no license left"}}`, `{"identity": "n1"}`, "no license left"},
		{"unknown behaviour", `{"n1": {"do": "dance"}}`, `{"identity": "n1"}`, `"dance"`},
		{"behaviour file is no JSON", `{`, `{"identity": "n1"}`, behaviourFile},
		{"a key without pki", `{"n1": {"do": "key"}}`, `{"identity": "n1"}`, PKI},
		{"input is no JSON", `{}`, `{`, "input"},
		{"input without identity", `{}`, `{}`, "identity"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			err := runHelper(helperDir(t, test.behaviour), strings.NewReader(test.input), &out)
			if err == nil || !strings.Contains(err.Error(), test.want) || out.Len() > 0 {
				t.Errorf("got error %v and output %q, want an error with %q alone", err, out.String(), test.want)
			}
		})
	}
}

// No step of a dry run makes a key, so there is nothing to be signed.
func TestSampleHelperAnswersInADryRun(t *testing.T) {
	t.Setenv("PROVISION_DRY_RUN", "1")
	for _, behaviour := range []string{`{}`, `{"n1": {"do": "key"}}`} {
		dir := helperDir(t, behaviour)
		s := site{Enrollment: PKI, Broker: "nats://127.0.0.1:1", Nodes: []string{"n1"}}
		if err := s.save(dir); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if err := runHelper(dir, strings.NewReader(`{"identity": "n1", "csr": null}`), &out); err != nil {
			t.Fatalf("%s: %v", behaviour, err)
		}
		if text := out.String(); !strings.Contains(text, `"identity":"n1"`) || strings.Contains(text, `"certificate"`) {
			t.Errorf("%s: got %s, want a configuration alone", behaviour, text)
		}
		if left, err := filepath.Glob(filepath.Join(dir, "issued", "*")); err != nil || len(left) > 0 {
			t.Errorf("%s: got %v written, want nothing in a dry run", behaviour, left)
		}
	}
}
