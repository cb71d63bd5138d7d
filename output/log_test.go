package output

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"choria-provision/discovery"
	"choria-provision/provision"

	"github.com/google/go-cmp/cmp"
	"github.com/sirupsen/logrus"
)

func testLogger(t *testing.T, o LogOptions) (*logrus.Logger, *bytes.Buffer) {
	t.Helper()
	var text bytes.Buffer
	o.Stderr = &text
	logger, closeLog, err := NewLogger(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeLog() })
	return logger, &text
}

var clock = regexp.MustCompile(`("?time"?[=:]"?)[^" ]+`)

// loudRun is smallRun with the events that only a log at debug level tells.
func loudRun() []any {
	return append(smallRun(),
		provision.Attempt{Node: "web1.example.net", Action: "choria_provision#jwt", Number: 1, Took: 1200 * time.Millisecond, Err: provision.ErrNoReply},
		provision.CallFailed{Node: "web1.example.net", Action: "choria_provision#jwt", Err: provision.ErrNoReply},
		provision.HelperDone{Node: "web1.example.net", Took: time.Second},
		provision.StepDone{Node: "web1.example.net", Step: "jwt", Took: time.Second, Err: provision.ErrNoReply},
		provision.Notice{Node: "web1.example.net", Step: "helper", Text: "no reason"},
		discovery.Cycle{Err: errors.New("no broker")},
	)
}

func TestLogTellsTheRun(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		o     LogOptions
		nodes bool
	}{
		{"text-info", LogOptions{Level: "info", Format: "text"}, true},
		{"text-debug", LogOptions{Level: "debug", Format: "text"}, true},
		{"json-debug", LogOptions{Level: "debug", Format: "json"}, true},
		{"text-error", LogOptions{Level: "error", Format: "text"}, true},
		{"text-beside-lines", LogOptions{Level: "debug", Format: "text"}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			logger, text := testLogger(t, tt.o)
			events := NewLogEvents(logger, tt.nodes)
			for _, event := range loudRun() {
				events.Observe(event)
			}
			got := clock.ReplaceAllString(text.String(), "${1}T")
			golden(t, "log-"+tt.name+".golden", got)
			noEscapes(t, got)
		})
	}
}

func TestEveryLogLineOfANodeNamesIt(t *testing.T) {
	t.Parallel()
	logger, text := testLogger(t, LogOptions{Level: "debug", Format: "json"})
	events := NewLogEvents(logger, true)
	for _, event := range loudRun() {
		before := text.Len()
		events.Observe(event)
		switch event.(type) {
		case discovery.Cycle, provision.RunStarted:
			continue
		}
		var line map[string]any
		if err := json.Unmarshal(text.Bytes()[before:], &line); err != nil {
			t.Fatalf("%T: %v", event, err)
		}
		if line["node"] == nil || line["node"] == "" {
			t.Errorf("got no node in the line of %T: %v", event, line)
		}
	}
}

func TestLogEscapesAndMasksWhoeverLogs(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"text", "json"} {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			logger, text := testLogger(t, LogOptions{Level: "debug", Format: format, Redactor: NewRedactor([]string{"s3cret", "s3cret-token", "", "a"})})
			logger.WithError(errors.New("bad \x1b[2J s3cret-token")).WithField("reply", []string{"\u202e", "s3cret-token"}).Warn("from\x9b the library: s3cret-token\n")
			got := text.String()
			noEscapes(t, got)
			if strings.Contains(got, "s3cret") || strings.Contains(got, "****-token") {
				t.Errorf("got the secret: %s", got)
			}
			if strings.Count(got, "****") != 3 {
				t.Errorf("got %s, want three masks", got)
			}
		})
	}
}

func TestLogFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "provision.log")
	for range 2 {
		logger, closeLog, err := NewLogger(LogOptions{Level: "warn", Format: "text", File: path})
		if err != nil {
			t.Fatal(err)
		}
		logger.Warn("one line")
		logger.Info("not this one")
		if err := closeLog(); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(string(text), "one line"); got != 2 || strings.Contains(string(text), "not this one") {
		t.Errorf("got %s, want the warning of each run", text)
	}
}

func TestLoggerThatCannotBe(t *testing.T) {
	t.Parallel()
	for _, o := range []LogOptions{{Level: "loud"}, {Level: "info", File: filepath.Join(t.TempDir(), "no/such/dir")}} {
		if _, _, err := NewLogger(o); err == nil {
			t.Errorf("got no error for %+v, want one", o)
		}
	}
}

func TestNobodyReadsItTwice(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, file, format string
		terminal           bool
		want               Sinks
	}{
		{"a person", "", "text", true, Sinks{Live: true}},
		{"a journal", "", "text", false, Sinks{Lines: true}},
		{"JSON alone", "", "json", false, Sinks{Log: true}},
		{"JSON on a terminal", "", "json", true, Sinks{Log: true}},
		{"a log file and a person", "/l", "text", true, Sinks{Log: true, Live: true}},
		{"a JSON file and a journal", "/l", "json", false, Sinks{Log: true, Lines: true}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, SelectSinks(tt.file, tt.format, tt.terminal)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestLogFileMayBeEmptiedInPlace does what logrotate's copytruncate does to the
// file of a process that runs.
func TestLogFileMayBeEmptiedInPlace(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "provision.log")
	logger, closeLog, err := NewLogger(LogOptions{Level: "info", Format: "json", File: path})
	if err != nil {
		t.Fatal(err)
	}
	logger.Info("before")
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	logger.Info("after")
	if err := closeLog(); err != nil {
		t.Error(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(text); !strings.HasPrefix(got, "{") || strings.Contains(got, "before") || strings.Count(got, "after") != 1 {
		t.Errorf("got %q, want the second line alone, at the beginning", got)
	}
}
