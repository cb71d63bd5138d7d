package commands

import (
	"regexp"
	"strings"
	"testing"

	"choria-provision/internal/lab"
)

func TestAnAnswerLargerThanTheBrokerTakesFailsAtOnce(t *testing.T) {
	t.Parallel()
	l := startLab(t, lab.Options{Nodes: 2, Enrollment: lab.Insecure})
	large, small := l.NodeNames()[0], l.NodeNames()[1]
	policies := map[string]any{"action_policies": map[string]string{"large.policy": strings.Repeat("# nothing\n", 110_000)}}
	if err := l.Behave(large, lab.Behaviour{Set: policies}); err != nil {
		t.Fatal(err)
	}
	doc, r := report(t, l, "once")
	if r.code != 3 {
		t.Errorf("got exit code %d, want 3\n%s", r.code, r.stderr)
	}
	got := outcomes(doc)[large]
	if got.Outcome != "failed" || got.Step != "configure" || got.Cause != "too_large" {
		t.Errorf("got %+v, want failed at configure as too large", got)
	}
	sizes := regexp.MustCompile(`: 2\d{3} KiB for a message of 11\d\d KiB, its limit \(max_payload\) is 1024 KiB$`)
	if !sizes.MatchString(got.Error) {
		t.Errorf("got %q, want both sizes in it", got.Error)
	}
	if actions := asked(t, l, large); strings.Contains(strings.Join(actions, " "), "configure") || got.Attempts != 3 {
		t.Errorf("got %d attempts, and the node saw %v, want one attempt to configure it that is not sent", got.Attempts, actions)
	}
	if got := outcomes(doc)[small]; got.Outcome != "provisioned" {
		t.Errorf("got %+v, want the other node provisioned", got)
	}
}
