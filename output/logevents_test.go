package output

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"choria-provision/discovery"
	"choria-provision/provision"

	"github.com/google/go-cmp/cmp"
)

func TestLineLogWritesALineForEachResult(t *testing.T) {
	t.Parallel()
	quiet, brief := LineLogOptions{Quiet: true}, LineLogOptions{Brief: true}
	skipped := func(cause error, notices ...string) provision.NodeDone {
		return provision.NodeDone{Result: provision.Result{Node: "a", Outcome: provision.Skipped, Step: "record", Err: located("a", "record", cause), Notices: notices}}
	}
	failure := failed("a", "csr", errors.New("no way"))[1]
	_, invalid := Hint(discovery.ErrInvalidIdentity)
	tests := []struct {
		name    string
		options LineLogOptions
		event   any
		want    string
	}{
		{"provisioned", LineLogOptions{}, result("a", provision.Provisioned, nil)[1], "a: provisioned after 3.2s: version 0.29.4"},
		{"provisioned, brief", brief, result("a", provision.Provisioned, nil)[1], "a: provisioned after 3.2s: version 0.29.4"},
		{"without version", LineLogOptions{}, done("a", provision.Provisioned), "a: provisioned"},
		{"failed", LineLogOptions{}, failure, "a: failed at csr after 3.2s: no way"},
		{"failed, brief", brief, failure, "a: failed at csr after 3.2s"},
		{"failed, quiet", quiet, failure, "a: failed at csr after 3.2s: no way"},
		{"held", LineLogOptions{}, skipped(provision.ErrHeld), "a: skipped at record: " + provision.ErrHeld.Error()},
		{"held, quiet", quiet, skipped(provision.ErrHeld), ""},
		{"locked, quiet", quiet, skipped(provision.ErrLocked), ""},
		{"busy, quiet", quiet, skipped(provision.ErrBusy), ""},
		{"resetting, quiet", quiet, skipped(provision.ErrResetting), ""},
		{"held with a notice, quiet", quiet, skipped(provision.ErrHeld, "look"), "a: skipped at record: " + provision.ErrHeld.Error()},
		{"of another installation, quiet", quiet, skipped(provision.ErrOwned), "a: skipped at record: " + provision.ErrOwned.Error()},
		{"upgraded", LineLogOptions{}, provision.NodeDone{Result: provision.Result{Node: "a", Outcome: provision.Upgraded, Step: "upgrade", Version: "1", Upgrade: "2"}}, "a: upgraded at upgrade: 1 → 2"},
		{"deferred", LineLogOptions{}, provision.NodeDone{Result: provision.Result{Node: "a", Outcome: provision.Deferred, Step: "helper", Message: "not\nnow", Version: "1"}}, `a: deferred at helper: not\nnow`},
		{"notice", quiet, provision.Notice{Node: "a\x1b", Step: "helper", Text: "b\n"}, `warning: a\x1b: helper: b\n`},
		{"invalid identity", quiet, discovery.Refused{Identity: "a\x1b", Count: 2, Err: discovery.ErrInvalidIdentity}, `warning: a\x1b: ` + discovery.ErrInvalidIdentity.Error() + " (2 answers). " + invalid},
		{"full queue, without a hint", quiet, discovery.Refused{Identity: "a", Count: 1, Err: errors.New("odd")}, "warning: a: odd (1 answer)."},
		{"events of the work", LineLogOptions{}, provision.StepDone{Node: "a", Step: "jwt"}, ""},
		{"a discovery", LineLogOptions{}, discovery.Cycle{Answers: 3, Err: errors.New("no")}, ""},
		{"an unknown event", LineLogOptions{}, struct{ Node string }{"a"}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var text strings.Builder
			NewLineLog(&text, tt.options).Observe(tt.event)
			if got := strings.TrimSuffix(text.String(), "\n"); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			if strings.Count(text.String(), "\n") > 1 {
				t.Errorf("got %q, want one line", text.String())
			}
		})
	}
}

func TestLogEventsByLevel(t *testing.T) {
	t.Parallel()
	cause := provision.ErrNoReply
	type line = map[string]any
	tests := []struct {
		name  string
		event any
		want  line // nil: no line
	}{
		{"discovery", discovery.Cycle{Answers: 3, Took: 1500 * time.Millisecond}, line{"level": "debug", "msg": "discovered", "answers": 3.0, "seconds": 1.5}},
		{"failed discovery", discovery.Cycle{Answers: 3, Err: cause}, line{"level": "error", "msg": "discovery failed", "answers": 3.0, "seconds": 0.0, "error": cause.Error()}},
		{"admitted", discovery.Admitted{Sighting: discovery.Sighting{Identity: "a", Source: discovery.ByEvent}}, line{"level": "debug", "msg": "admitted", "node": "a", "source": "event"}},
		{"refused", discovery.Refused{Identity: "a\x1b", Count: 2, Err: discovery.ErrInvalidIdentity}, line{"level": "warning", "msg": "refused", "node": `a\x1b`, "answers": 2.0, "error": discovery.ErrInvalidIdentity.Error()}},
		{"run", provision.RunStarted{Nodes: 3, Left: 1, Workers: 2}, line{"level": "debug", "msg": "run started", "nodes": 3.0, "left": 1.0, "workers": 2.0}},
		{"node", provision.NodeStarted{Node: "a"}, line{"level": "debug", "msg": "started", "node": "a"}},
		{"worker", provision.NodeAssigned{Node: "a"}, line{"level": "debug", "msg": "a worker takes it", "node": "a"}},
		{"step", provision.StepDone{Node: "a", Step: "jwt", Took: time.Second}, line{"level": "debug", "msg": "step done", "node": "a", "step": "jwt", "seconds": 1.0}},
		{"failed step", provision.StepDone{Node: "a", Step: "jwt", Err: cause}, line{"level": "debug", "msg": "step done", "node": "a", "step": "jwt", "seconds": 0.0, "error": cause.Error()}},
		{"attempt", provision.Attempt{Node: "a", Action: "x#y", Number: 2, Took: time.Second, Err: cause}, line{"level": "debug", "msg": "called", "node": "a", "rpc": "x#y", "attempt": 2.0, "seconds": 1.0, "error": cause.Error()}},
		{"failed call", provision.CallFailed{Node: "a", Action: "x#y", Err: cause}, line{"level": "debug", "msg": "call failed", "node": "a", "rpc": "x#y", "error": cause.Error()}},
		{"helper", provision.HelperDone{Node: "a", Took: time.Second}, line{"level": "debug", "msg": "helper done", "node": "a", "step": "helper", "seconds": 1.0}},
		{"notice", provision.Notice{Node: "a", Step: "helper", Text: "look"}, line{"level": "warning", "msg": "look", "node": "a", "step": "helper"}},
		{"provisioned", done("a", provision.Provisioned), line{"level": "info", "msg": "provisioned", "node": "a", "seconds": 0.0}},
		{"with its version", result("a", provision.Provisioned, nil)[1], line{"level": "info", "msg": "provisioned", "node": "a", "seconds": 3.2, "detail": "version 0.29.4"}},
		{"failed", failed("a", "jwt", cause)[1], line{"level": "error", "msg": "failed", "node": "a", "step": "jwt", "seconds": 3.2, "error": cause.Error(), "cause": "no_reply"}},
		{"unknown", struct{}{}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, logged(t, "debug", true, tt.event)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			level, _ := tt.want["level"].(string)
			if got := logged(t, "info", true, tt.event); (got == nil) != (level == "debug" || level == "") {
				t.Errorf("got %v at level info, want debug lines left out and others kept", got)
			}
			beside := logged(t, "info", false, tt.event)
			if beside != nil {
				t.Errorf("got %v beside another observer of results, want nothing", beside)
			}
		})
	}
}

// logged is the line that an event makes, without its time; nil for none.
func logged(t *testing.T, level string, nodes bool, event any) map[string]any {
	t.Helper()
	var text strings.Builder
	logger, _, err := NewLogger(LogOptions{Level: level, Format: "json", Stderr: &text})
	if err != nil {
		t.Fatal(err)
	}
	NewLogEvents(logger, nodes).Observe(event)
	if text.Len() == 0 {
		return nil
	}
	var line map[string]any
	if err := json.Unmarshal([]byte(text.String()), &line); err != nil {
		t.Fatal(err)
	}
	delete(line, "time")
	return line
}

func TestFailedDiscoveryIsLoggedOnce(t *testing.T) {
	t.Parallel()
	for _, nodes := range []bool{true, false} {
		if got := logged(t, "debug", nodes, discovery.Cycle{Err: provision.ErrNetwork}); got["level"] != map[bool]string{true: "error", false: "debug"}[nodes] {
			t.Errorf("results %v: got %v, want an error only where results are logged", nodes, got)
		}
	}
}

func TestLogFieldsKeepTheirTypes(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	logger, closeLog, err := NewLogger(LogOptions{Level: "info", Format: "json", Stderr: &text, Redactor: NewRedactor([]string{"1234567"})})
	if err != nil {
		t.Fatal(err)
	}
	logger.WithFields(map[string]any{
		"b": true, "i": 7, "f": 1.5, "u": uint64(9), "d": 3 * time.Second, "e": errors.New("x\x1b"), "k\n": "v", "p": []int{1}, "s": "1234567",
	}).Info("msg\r\n")
	if err := closeLog(); err != nil {
		t.Error(err)
	}
	var got map[string]any
	if err := json.Unmarshal([]byte(text.String()), &got); err != nil {
		t.Fatal(err)
	}
	delete(got, "time")
	want := map[string]any{
		"b": true, "i": 7.0, "f": 1.5, "u": 9.0, "d": "3s", "e": `x\x1b`, `k\n`: "v", "p": "[1]", "s": "****", "msg": "msg", "level": "info",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestLogTextsAreBounded(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	logger, _, err := NewLogger(LogOptions{Level: "info", Format: "text", Stderr: &text})
	if err != nil {
		t.Fatal(err)
	}
	logger.Info(strings.Repeat("x", 10*maxLogText))
	if got := strings.Count(text.String(), "x"); got != maxLogText || !strings.Contains(text.String(), "…") {
		t.Errorf("got %d characters, want %d and an ellipsis", got, maxLogText)
	}
}
