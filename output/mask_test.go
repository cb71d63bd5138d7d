package output

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"choria-provision/provision"
)

// chatter is a node's run in which everybody repeats a secret.
func chatter(secret string) []any {
	said := fmt.Errorf("it said %s: %w", secret, provision.ErrHelper)
	return []any{
		provision.NodeStarted{Node: "web1.example.net"},
		provision.Attempt{Node: "web1.example.net", Action: "choria_provision#jwt", Number: 1, Err: said},
		provision.CallFailed{Node: "web1.example.net", Action: "choria_provision#jwt", Err: said},
		provision.HelperDone{Node: "web1.example.net", Err: said},
		provision.AnswerRefused{Node: "web1.example.net", Err: said},
		provision.StepDone{Node: "web1.example.net", Step: "helper", Err: said},
		provision.Notice{Node: "web1.example.net", Step: "helper", Text: "warning about " + secret},
		provision.NodeDone{Result: provision.Result{
			Node: "web1.example.net", Outcome: provision.Failed, Step: "helper", Err: located("web1.example.net", "helper", said),
			Message: secret, Version: secret, Upgrade: secret, Notices: []string{"warning about " + secret},
			Plan: &provision.Plan{Unchecked: []string{secret}, Configuration: map[string]string{"plugin.x": secret}},
		}},
	}
}

func TestMaskHidesWhatOthersRepeat(t *testing.T) {
	t.Parallel()
	const secret = "s3cret-token"
	logger, log := testLogger(t, LogOptions{Level: "debug", Format: "text"})
	var lines strings.Builder
	report := newReport()
	tell := NewMask([]string{"s3cret", secret}).Tell(Tell(report, NewLogEvents(logger, true), NewLines(&lines, LinesOptions{})))
	events := chatter(secret)
	for _, event := range events {
		tell(event)
	}
	doc := report.Finish(End{ExitCode: 3, Finished: began.Add(time.Minute)})
	text, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	for where, shown := range map[string]string{"the report": string(text), "the log": log.String(), "the lines": lines.String()} {
		if strings.Contains(shown, "s3cret") || strings.Contains(shown, "****-token") || !strings.Contains(shown, "****") {
			t.Errorf("%s: got %s, want **** for the secret", where, shown)
		}
	}
	if n := doc.Nodes[0]; n.Cause != "helper" || n.Error != "it said ****: the helper failed" {
		t.Errorf("got cause %q and error %q, want the cause and the words around the secret", n.Cause, n.Error)
	}
	if done := events[len(events)-1].(provision.NodeDone); done.Plan.Configuration["plugin.x"] != secret || done.Notices[0] != "warning about "+secret {
		t.Errorf("got %+v, want the event itself left as it was", done)
	}
}

// What is hidden later is hidden by whoever has the mask already.
func TestMaskLearnsSecrets(t *testing.T) {
	t.Parallel()
	mask := NewMask([]string{"s3cret"})
	logger, log := testLogger(t, LogOptions{Level: "debug", Format: "text", Mask: mask})
	logger.Info("before: rotated")
	mask.Hide("rotated", "s3cret")
	logger.Info("after: rotated s3cret")
	if text := log.String(); !strings.Contains(text, "before: rotated") || !strings.Contains(text, "after: **** ****") {
		t.Errorf("got %s, want the secret hidden once it is known", text)
	}
	if got := (Mask{}).Replace("s3cret"); got != "s3cret" {
		t.Errorf("got %q, want a mask without secrets to hide none", got)
	}
}

func TestMaskLeavesOtherErrorsAlone(t *testing.T) {
	t.Parallel()
	plain := errors.New("nothing to hide")
	mask := NewMask([]string{"s3cret-token", "abc", ""})
	if got := mask.Error(plain); got != plain { //nolint:errorlint // the same value, not one that wraps it
		t.Errorf("got %v, want the error itself", got)
	}
	if got := mask.Error(nil); got != nil {
		t.Errorf("got %v, want nil", got)
	}
	if got := mask.Replace("abc"); got != "abc" {
		t.Errorf("got %q, want a short text left alone", got)
	}
}
