package commands

import (
	"bytes"
	"strings"
	"testing"

	"choria-provision/internal/lab"
)

func TestANodeThatIsHeldIsInTheTable(t *testing.T) {
	t.Parallel()
	l := startLab(t, lab.Options{Nodes: 1, Enrollment: lab.Insecure})
	name := l.NodeNames()[0]
	if r := runIn(t, l, "node", name); r.code != 0 {
		t.Fatalf("got exit code %d\n%s", r.code, r.stderr)
	}
	r := runIn(t, l, "node", name)
	row := strings.Fields(strings.Split(r.stdout+"\n\n", "\n")[1])
	if r.code != exitNothing || len(row) < 3 || strings.Join(row[:3], " ") != name+" skipped record" || !strings.Contains(r.stdout, "the node is held for a moment: for another ") {
		t.Errorf("got exit code %d, want %d, and the held node in the table:\n%s%s", r.code, exitNothing, r.stdout, r.stderr)
	}
	doc, r := report(t, l, "node", name)
	if node := outcomes(doc)[name]; r.code != exitNothing || doc.Run.ExitCode != exitNothing || node.Outcome != "skipped" || node.Cause != "held" {
		t.Errorf("got exit code %d, %d in the document, and %+v, want %d and a held node", r.code, doc.Run.ExitCode, node, exitNothing)
	}
}

// TestSystemdsVariableSilencesNothingAtATerminal runs in a shell that a unit has
// started, such as a console's or that of systemd-run --pty.
func TestSystemdsVariableSilencesNothingAtATerminal(t *testing.T) {
	t.Parallel()
	l := startLab(t, lab.Options{Nodes: 1, Enrollment: lab.Insecure})
	run := func() (ran, string) {
		screen, tty := terminal(t)
		cmd, stdout, stderr := provisionCommand(t, l, "once")
		cmd.Env = append(cmd.Env, "INVOCATION_ID=0123456789abcdef0123456789abcdef")
		cmd.Stderr = tty
		shown := make(chan string)
		go func() {
			var text bytes.Buffer
			_, _ = text.ReadFrom(screen) // ends with an error when the terminal has no other end
			shown <- text.String()
		}()
		r := ended(t, cmd.Run(), stdout, stderr)
		_ = tty.Close()
		return r, <-shown
	}
	if r, _ := run(); r.code != 0 || !strings.Contains(r.stdout, "1 provisioned") {
		t.Errorf("got exit code %d and %q, want the result", r.code, r.stdout)
	}
	await(t, "an empty network", func() bool { r, _ := run(); return strings.Contains(r.stdout, "Nobody waits") })
	if r := runIn(t, l, "pause"); r.code != 0 {
		t.Fatal(r.stderr)
	}
	if r, text := run(); r.code != exitNothing || !strings.Contains(text, "provisioning is paused") {
		t.Errorf("paused: got exit code %d and %q, want %d and the reason", r.code, text, exitNothing)
	}
}
