package commands

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// erased is what a terminal no longer shows of a line that was drawn anew.
var erased = regexp.MustCompile(`(?m)^.*\x1b\[2K`)

func TestABrokerThatIsDownIsOneLineAtATerminal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"provision.yaml": "helper: /bin/true\ntoken: s3cret\nchoria_insecure: true\nconnect_timeout: 1s\nstate_dir: " + filepath.Join(dir, "state") + "\n",
		"client.conf":    "identity = me\nplugin.security.provider = file\nplugin.choria.middleware_hosts = nats://127.0.0.1:1\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	screen, tty := terminal(t)
	shown := make(chan string)
	go func() {
		var text bytes.Buffer
		part := make([]byte, 4096)
		for !strings.Contains(text.String(), "middleware_hosts names it") {
			n, err := screen.Read(part)
			if err != nil {
				break
			}
			text.Write(part[:n])
		}
		shown <- text.String()
	}()
	code := Run(t.Context(), []string{"--config", filepath.Join(dir, "provision.yaml"), "once"}, Streams{In: strings.NewReader(""), Out: tty, Err: tty})
	left := strings.TrimSpace(erased.ReplaceAllString(strings.ReplaceAll(<-shown, "\r", ""), ""))
	if code != exitRun || !strings.HasPrefix(left, "provision: connecting to the broker at nats://127.0.0.1:1: no broker answers: ") || strings.Contains(left, "\n") {
		t.Errorf("got exit code %d, want 1 and one line:\n%q", code, left)
	}
}
