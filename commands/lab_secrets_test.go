package commands

import (
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"choria-provision/internal/lab"
)

// The secrets that the site of these tests has beside what the lab makes.
const (
	gatewayPassword = "gateway-password-9a1f"
	gatewayHeader   = "gateway-header-77c2"
	siteToken       = "site-token-51be"
)

// gatewayThatListens keeps what was pushed; how it answers is up to the test.
func gatewayThatListens(t *testing.T, answer http.HandlerFunc) (string, func() string) {
	t.Helper()
	var mu sync.Mutex
	var pushed strings.Builder
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		pushed.WriteString(r.URL.String())
		pushed.Write(body)
		mu.Unlock()
		answer(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL, func() string {
		mu.Lock()
		defer mu.Unlock()
		return pushed.String()
	}
}

// guarded is a lab whose product talks at debug level and pushes to a gateway
// that wants a password and repeats in its answer what it was told.
type guarded struct {
	*lab.Lab
	logFile string
	pushed  func() string
}

func guardedLab(t *testing.T, o lab.Options) guarded {
	t.Helper()
	l := startLab(t, o)
	dir := t.TempDir()
	password := filepath.Join(dir, "gateway-password")
	if err := os.WriteFile(password, []byte(gatewayPassword+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	address, pushed := gatewayThatListens(t, func(w http.ResponseWriter, r *http.Request) {
		_, word, _ := r.BasicAuth()
		http.Error(w, "not you, "+word+", "+r.Header.Get("X-Scope"), http.StatusForbidden)
	})
	g := guarded{l, filepath.Join(dir, "provision.log"), pushed}
	g.set(t, map[string]any{
		"loglevel": "debug",
		"pushgateway": map[string]any{
			"url": address, "username": "provision", "password_file": password, "headers": map[string]any{"X-Scope": gatewayHeader},
		},
	})
	return g
}

func (g guarded) set(t *testing.T, keys map[string]any) {
	t.Helper()
	if err := g.SetConfig(keys); err != nil {
		t.Fatal(err)
	}
}

// secrets are texts that nobody may read in anything the product leaves, by
// what they are. The lab knows all of them, those it gave to nodes as well.
func (g guarded) secrets(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{
		"the gateway's password": gatewayPassword, "the gateway's header": gatewayHeader,
		"the broker's password": "provisioning-password", "the site's token": g.token(t),
	}
	for _, dir := range []string{filepath.Join(g.Dir(), "keys"), filepath.Join(g.Dir(), "nodes"), filepath.Join(g.Dir(), "issued")} {
		for path, content := range tree(t, dir) {
			for n, secret := range secretTexts(path, content) {
				found[path+" "+n] = secret
			}
		}
	}
	return found
}

func (g guarded) token(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(g.ConfigFile())
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, "token: "); ok {
			return strings.TrimSpace(value)
		}
	}
	t.Fatalf("no token in %s", text)
	return ""
}

// secretTexts are the parts of a file that give its secret away: the signature
// of a JWT, a seed, each full line of a private key.
func secretTexts(path, content string) map[string]string {
	found := map[string]string{}
	_, content, _ = strings.Cut(content, " ") // the file's mode
	switch {
	case strings.HasSuffix(path, ".jwt"):
		if parts := strings.Split(strings.TrimSpace(content), "."); len(parts) == 3 {
			found["signature"] = parts[2]
		}
	case strings.HasSuffix(path, ".seed"):
		found["seed"] = strings.TrimSpace(content)
	case strings.Contains(content, "PRIVATE KEY-----"):
		text := strings.ReplaceAll(content, `\n`, "\n") // in JSON
		_, text, _ = strings.Cut(text, "PRIVATE KEY-----")
		for i, line := range strings.Split(text, "\n") {
			if len(line) == 64 && i < 40 {
				found["line "+line[:4]] = line
			}
		}
	}
	return found
}

// leaks reports every secret that is in a text.
func leaks(t *testing.T, secrets, texts map[string]string) {
	t.Helper()
	for where, text := range texts {
		for _, what := range slices.Sorted(maps.Keys(secrets)) {
			if secret := secrets[what]; secret != "" && strings.Contains(text, secret) {
				at := strings.Index(text, secret)
				t.Errorf("%s shows %s: …%s…", where, what, text[max(0, at-80):min(len(text), at+20)])
			}
		}
	}
}

// left is everything the product wrote beside its output.
func (g guarded) left(t *testing.T) map[string]string {
	t.Helper()
	texts := tree(t, g.StateDir())
	texts["pushed"] = g.pushed()
	if log, err := os.ReadFile(g.logFile); err == nil {
		texts["logfile"] = string(log)
	}
	return texts
}

func TestNoSecretIsEverShown(t *testing.T) {
	t.Parallel()
	for _, enrollment := range []string{lab.Insecure, lab.PKI, lab.Issuer} {
		t.Run(enrollment, func(t *testing.T) {
			t.Parallel()
			g := guardedLab(t, lab.Options{Nodes: 3, Enrollment: enrollment})
			names := g.NodeNames()
			if enrollment == lab.PKI {
				if err := g.Behave(names[0], lab.Behaviour{Do: lab.SendKey}); err != nil {
					t.Fatal(err)
				}
			}
			if err := g.Behave(names[2], lab.Behaviour{Do: lab.Fail, Message: "no"}); err != nil {
				t.Fatal(err)
			}
			texts := map[string]string{}
			for _, args := range [][]string{
				{"--debug", "config", "show"}, {"--debug", "config", "show", "--output", "json"}, {"--debug", "config", "check"},
				{"--debug", "discover"}, {"--debug", "once", "--dry-run", "--run-helper"}, {"--debug", "once", "--dry-run", "--run-helper", "--output", "json"},
				{"--debug", "helper", "run", "--identity", names[1]},
				{"--debug", "node", names[0], "--log-format", "json"}, {"--debug", "once"}, {"--debug", "once", "--output", "json"},
				{"--debug", "status"}, {"--debug", "status", "--output", "json"},
			} {
				r := runIn(t, g.Lab, args...)
				texts[strings.Join(args, " ")] = r.stdout + r.stderr
			}
			if log := texts["--debug once"]; !strings.Contains(log, "level=debug") || !strings.Contains(log, "metrics were not pushed") {
				t.Errorf("got\n%s\nwant debug lines and a push that failed", log)
			}
			if state := inService(t, g.Lab); len(state) != 2 {
				t.Errorf("in service: %v, want two: else there are no secrets of nodes", state)
			}
			maps.Copy(texts, g.left(t))
			leaks(t, g.secrets(t), texts)
		})
	}
}

func TestNoSecretIsInTheLogFile(t *testing.T) {
	t.Parallel()
	g := guardedLab(t, lab.Options{Nodes: 1, Enrollment: lab.Issuer})
	g.set(t, map[string]any{"loglevel": "debug", "logfile": g.logFile, "token": siteToken})
	if r := runIn(t, g.Lab, "once"); r.code != 3 {
		t.Errorf("with a wrong token: got exit code %d, want 3\n%s", r.code, r.stderr)
	}
	g.set(t, map[string]any{"loglevel": "debug", "logfile": g.logFile})
	r := runIn(t, g.Lab, "once")
	if r.code != 0 {
		t.Errorf("got exit code %d\n%s", r.code, r.stderr)
	}
	texts := g.left(t)
	if !strings.Contains(texts["logfile"], "level=debug") {
		t.Errorf("got log\n%s\nwant debug lines", texts["logfile"])
	}
	texts["output"] = r.stdout + r.stderr
	secrets := g.secrets(t)
	secrets["the wrong token"] = siteToken
	leaks(t, secrets, texts)
}

func TestNoSecretIsShownThatAHelperRepeats(t *testing.T) {
	t.Parallel()
	g := guardedLab(t, lab.Options{Nodes: 1, Enrollment: lab.Issuer})
	helper := filepath.Join(t.TempDir(), "helper.sh")
	text := "#!/bin/sh\ncat >&2\ngrep -h . " + filepath.Join(g.Dir(), "keys", "provisioner.jwt") + " " + g.ConfigFile() + " >&2\nexit 1\n"
	if err := os.WriteFile(helper, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	g.set(t, map[string]any{"loglevel": "debug", "helper": helper, "logfile": g.logFile})
	texts := map[string]string{}
	for _, args := range [][]string{{"once"}, {"once", "--output", "json"}, {"once", "--dry-run", "--run-helper"}, {"helper", "run"}, {"helper", "run", "--output", "json"}, {"status"}} {
		r := runIn(t, g.Lab, args...)
		texts[strings.Join(args, " ")] = r.stdout + r.stderr
	}
	if !strings.Contains(texts["once"], "ed25519_pubkey") {
		t.Errorf("got\n%s\nwant what the helper wrote to stderr", texts["once"])
	}
	maps.Copy(texts, g.left(t))
	leaks(t, g.secrets(t), texts)
}

func TestNoSecretIsShownByWatchNorOnTheWayBack(t *testing.T) {
	t.Parallel()
	g := guardedLab(t, lab.Options{Nodes: 2, Enrollment: lab.PKI})
	names, port := g.NodeNames(), freePort(t)
	if err := g.Behave(names[0], lab.Behaviour{Do: lab.SendKey}); err != nil {
		t.Fatal(err)
	}
	keys := map[string]any{"loglevel": "debug", "interval": "1h", "monitor_port": port}
	g.set(t, keys)
	w := startWatch(t, g.Lab, "--debug")
	await(t, "both nodes in service", func() bool { return metric(t, port, "provisioned") == "2" })
	keys["token"] = siteToken
	g.set(t, keys)
	await(t, "the new configuration", func() bool { return strings.Contains(w.said(), "changed: token") })
	secrets := g.secrets(t)
	secrets["the new token"] = siteToken
	if code := w.signal(syscall.SIGTERM); code != 0 {
		t.Errorf("got exit code %d, want 0", code)
	}

	g.set(t, nil)
	secrets["the first token"] = g.token(t)
	texts := map[string]string{"watch": w.said()}
	say := func(args ...string) string {
		r := runIn(t, g.Lab, append(args, "--debug")...)
		if r.code != 0 {
			t.Errorf("%v: got exit code %d\n%s", args, r.code, r.stderr)
		}
		texts[args[0]] += r.stdout + r.stderr
		return r.stdout
	}
	if got := inService(t, g.Lab); len(got) != 2 {
		t.Fatalf("in service: %v, want both", got)
	}
	say("reset", names[0], "--reprovision")
	await(t, "the node back in provisioning", func() bool { return strings.Contains(say("discover", "--names"), names[0]) })
	say("shutdown", names[0])
	maps.Copy(texts, g.left(t))
	leaks(t, secrets, texts)
}
