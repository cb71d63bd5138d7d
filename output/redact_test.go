package output

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"choria-provision/discovery"
	"choria-provision/provision"
	"choria-provision/provision/helper"
)

// chatter is a node's run in which everybody repeats a secret.
func chatter(secret string) []any {
	said := fmt.Errorf("it said %s: %w", secret, helper.ErrFailed)
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

const sample = "s3cret-token"

// inner and future are events that no line of the redactor knows.
type inner struct {
	Text  string
	Bytes []byte
}

type future struct {
	Node    string
	Outcome provision.Outcome
	Words   string
	Deep    *inner
	List    []inner
	Pair    [2]string
	Keyed   map[string]any
	Cause   error
	Network net.Error
	Any     any
	At      time.Time
	Count   int
	private string
}

func TestUnknownEventsAreRedacted(t *testing.T) {
	t.Parallel()
	cause := fmt.Errorf("said %s: %w", sample, helper.ErrFailed)
	tests := []struct {
		name  string
		event any
	}{
		{"a text alone", sample},
		{"bytes", []byte(sample)},
		{"an error alone", cause},
		{"text", future{Words: "the " + sample}},
		{"pointer", future{Deep: &inner{Text: sample}}},
		{"pointer to an event", &future{Words: sample}},
		{"bytes in a pointer", future{Deep: &inner{Bytes: []byte(sample)}}},
		{"list", future{List: []inner{{Text: "a"}, {Text: sample}}}},
		{"array", future{Pair: [2]string{"a", sample}}},
		{"map value", future{Keyed: map[string]any{"a": inner{Text: sample}}}},
		{"map key", future{Keyed: map[string]any{sample: 1}}},
		{"error", future{Cause: cause}},
		{"error of another interface", future{Network: &net.DNSError{Err: sample}}},
		{"error in any", future{Any: cause}},
		{"list in any", future{Any: []any{1, []string{sample}}}},
		{"failed discovery", discovery.Cycle{Err: cause}},
		{"refused sighting", discovery.Refused{Identity: "web1", Err: cause}},
		{"step of a plan", provision.NodeDone{Result: provision.Result{Plan: &provision.Plan{Steps: []provision.PlannedStep{{Note: sample}}}}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			before := fmt.Sprintf("%+v", tt.event)
			var got any
			NewRedactor([]string{sample}).Emit(func(event any) { got = event })(tt.event)
			if text := shownDeep(got); strings.Contains(text, "s3cret") {
				t.Errorf("got %s, want no secret in it", text)
			}
			if after := fmt.Sprintf("%+v", tt.event); after != before {
				t.Errorf("got the event itself changed to %s, want %s", after, before)
			}
			if fmt.Sprintf("%T", got) != fmt.Sprintf("%T", tt.event) && !strings.Contains(tt.name, "alone") {
				t.Errorf("got a %T, want a %T", got, tt.event)
			}
		})
	}
}

// shownDeep is v with what its pointers lead to.
func shownDeep(v any) string {
	text := fmt.Sprintf("%+v", v)
	switch e := v.(type) {
	case []byte:
		return string(e)
	case future:
		if e.Deep != nil {
			text += e.Deep.Text + string(e.Deep.Bytes)
		}
	case provision.NodeDone:
		text += fmt.Sprintf("%+v", e.Plan)
	}
	return text
}

func TestRedactionKeepsWhatObserversCompare(t *testing.T) {
	t.Parallel()
	r := NewRedactor([]string{"web1", "failed", "helper"})
	cause := fmt.Errorf("web1 said: %w", helper.ErrFailed)
	at := time.Unix(1, 0)
	got := Redact(r, future{Node: "web1", Outcome: provision.Failed, Words: "web1", Cause: cause, At: at, Count: 3, private: "web1"})
	if got.Node != "web1" || got.Outcome != provision.Failed || !got.At.Equal(at) || got.Count != 3 {
		t.Errorf("got %+v, want identity, outcome, time and number as they were", got)
	}
	if got.Words != "****" || got.Cause.Error() != "**** said: the **** ****" || !errors.Is(got.Cause, helper.ErrFailed) {
		t.Errorf("got %q and %v, want both redacted and the cause kept", got.Words, got.Cause)
	}
}

func TestRedactorWithoutSecretsChangesNothing(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]Redactor{"zero": {}, "none": NewRedactor(nil), "too short": NewRedactor([]string{"", "abc"})} {
		event := &future{Words: "abc"}
		if got := Redact[any](r, event); got != event || event.Words != "abc" {
			t.Errorf("%s: got %+v, want the event itself", name, got)
		}
	}
}

func TestRedactionOfAnOrdinaryEventAllocatesLittle(t *testing.T) {
	r := NewRedactor([]string{sample})
	event := any(provision.Attempt{Node: "web1", Action: "choria_provision#jwt", Number: 1, Took: time.Second})
	if got := testing.AllocsPerRun(100, func() { _ = Redact(r, event) }); got > 12 {
		t.Errorf("got %v allocations, want at most 12", got)
	}
}

func BenchmarkRedactAttempt(b *testing.B) {
	r := NewRedactor([]string{sample, "another-secret"})
	event := any(provision.Attempt{Node: "web1", Action: "choria_provision#jwt", Number: 1, Took: time.Second, Err: provision.ErrNoReply})
	for b.Loop() {
		_ = Redact(r, event)
	}
}
