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

func TestSecretsThatOthersRepeatAreRedacted(t *testing.T) {
	t.Parallel()
	const secret = "s3cret-token"
	logger, log := testLogger(t, LogOptions{Level: "debug", Format: "text"})
	var lines strings.Builder
	report := newReport()
	emit := NewRedactor([]string{"s3cret", secret}).Emit(Emit(report, NewLogEvents(logger, true), NewLineLog(&lines, LineLogOptions{})))
	events := chatter(secret)
	for _, event := range events {
		emit(event)
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

// A secret added later is redacted by every copy.
func TestRedactorAddsSecrets(t *testing.T) {
	t.Parallel()
	redactor := NewRedactor([]string{"s3cret"})
	logger, log := testLogger(t, LogOptions{Level: "debug", Format: "text", Redactor: redactor})
	logger.Info("before: rotated")
	redactor.Add("rotated", "s3cret")
	logger.Info("after: rotated s3cret")
	if text := log.String(); !strings.Contains(text, "before: rotated") || !strings.Contains(text, "after: **** ****") {
		t.Errorf("got %s, want the secret hidden once it is known", text)
	}
	if got := (Redactor{}).Replace("s3cret"); got != "s3cret" {
		t.Errorf("got %q, want a redactor without secrets to hide none", got)
	}
}

func TestRedactorLeavesOtherErrorsAlone(t *testing.T) {
	t.Parallel()
	plain := errors.New("nothing to hide")
	redactor := NewRedactor([]string{"s3cret-token", "abc", ""})
	if got := redactor.Error(plain); got != plain { //nolint:errorlint // the same value, not one that wraps it
		t.Errorf("got %v, want the error itself", got)
	}
	if got := redactor.Error(nil); got != nil {
		t.Errorf("got %v, want nil", got)
	}
	if got := redactor.Replace("abc"); got != "abc" {
		t.Errorf("got %q, want a short text left alone", got)
	}
}
