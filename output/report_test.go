package output

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"choria-provision/discovery"
	"choria-provision/provision"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v5"
)

func jsonOf(t *testing.T, doc Document) string {
	t.Helper()
	var text bytes.Buffer
	if err := doc.WriteJSON(&text); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

// dryRun has nodes with the same plan, one with another and one that is held.
func dryRun() []any {
	plan := func(jwt string) *provision.Plan {
		return &provision.Plan{
			Steps: []provision.PlannedStep{
				{Step: "jwt", Note: jwt}, {Step: "inventory", Note: "done in this dry run"}, {Step: "helper"},
				{Step: "configure", Note: "hangs on the helper's answer"}, {Step: "restart", Note: "hangs on the helper's answer"},
			},
			Unchecked: []string{"jwt", "helper"},
		}
	}
	events := []any{discovery.Cycle{Answers: 4}, provision.RunStarted{Nodes: 4, Workers: 2}}
	for i := range 3 {
		events = append(events, result(fmt.Sprintf("web%d.example.net", i), provision.Planned, func(r *provision.Result) { r.Plan = plan("") })...)
	}
	return append(events, result("db.example.net", provision.Planned, func(r *provision.Result) {
		r.Plan = plan("done in this dry run")
		r.Plan.Unchecked = nil
		r.Plan.Configuration = map[string]string{"plugin.choria.server.provision": "false", "identity": "db.example.net\x07", "plugin.security.token": "****"}
	})...)
}

func dryDocument() Document {
	doc := documentOf(dryRun(), End{})
	doc.Run.DryRun = true
	return doc
}

func TestReport(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		doc  Document
	}{
		{"small", documentOf(smallRun(), End{ExitCode: 5, Err: fmt.Errorf("%w: terminated", provision.ErrStopped)})},
		{"dry", dryDocument()},
		{"empty", documentOf(nil, End{})},
		{"network", documentOf([]any{discovery.Cycle{Err: provision.ErrNetwork}}, End{ExitCode: 1, Err: provision.ErrNetwork})},
	}
	schema := jsonschema.MustCompile("../docs/report.schema.json")
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			text := jsonOf(t, tt.doc)
			golden(t, "report-"+tt.name+".json", text)
			var value any
			if err := json.Unmarshal([]byte(text), &value); err != nil {
				t.Fatal(err)
			}
			if err := schema.Validate(value); err != nil {
				t.Errorf("got a document that its schema refuses: %#v", err)
			}
			noEscapes(t, text)
		})
	}
}

// TestSchemaKnowsEveryField holds the published schema to the struct: a field
// that is added here must be described there.
func TestSchemaKnowsEveryField(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/report.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	strict := strings.ReplaceAll(string(text), `"type": "object",`, `"type": "object", "unevaluatedProperties": false,`)
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("strict.json", strings.NewReader(strict)); err != nil {
		t.Fatal(err)
	}
	schema := compiler.MustCompile("strict.json")
	for _, doc := range []Document{documentOf(smallRun(), End{ExitCode: 5, Err: provision.ErrStopped}), dryDocument()} {
		var value any
		if err := json.Unmarshal([]byte(jsonOf(t, doc)), &value); err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(value); err != nil {
			t.Errorf("got a field that the schema does not describe: %#v", err)
		}
	}
	if err := schema.Validate(map[string]any{"schema_version": 1.0, "surprise": true}); err == nil {
		t.Error("got no error for an unknown field, want the strict schema to refuse it")
	}
}

func TestLastRunIsWhatWasSaved(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), LastRunFile)
	for _, events := range [][]any{largeRun(), smallRun()} {
		want := documentOf(events, End{ExitCode: 3})
		packed, err := want.Save(path)
		if err != nil {
			t.Fatal(err)
		}
		var text bytes.Buffer
		if err := want.WriteJSON(&text); err != nil {
			t.Fatal(err)
		}
		if copied, err := os.ReadFile(path); err != nil || string(copied) != text.String() {
			t.Errorf("got another text in the file, %v, want the document as it is printed", err)
		}
		got, err := ReadReport(packed)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("got another document (-want +got):\n%s", diff)
		}
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Mode().Perm(); got != 0o600 {
		t.Errorf("got mode %o, want 600", got)
	}
	if entries, _ := os.ReadDir(filepath.Dir(path)); len(entries) != 1 {
		t.Errorf("got %d files, want the report alone", len(entries))
	}
}

func TestLastRunThatCannotBeRead(t *testing.T) {
	t.Parallel()
	if _, err := ReadReport([]byte("not packed")); !errors.Is(err, ErrUnreadableReport) {
		t.Errorf("got %v, want %v", err, ErrUnreadableReport)
	}
	tests := []struct {
		name, text string
		want       error
	}{
		{"empty", "", ErrUnreadableReport},
		{"half", `{"schema_version": 1, "nodes": [`, ErrUnreadableReport},
		{"NULs", "\x00\x00\x00", ErrUnreadableReport},
		{"newer", `{"schema_version": 2}`, ErrUnreadableReport},
		{"another thing", `{"a": 1}`, ErrUnreadableReport},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var packed bytes.Buffer
			packer := gzip.NewWriter(&packed)
			if _, err := packer.Write([]byte(tt.text)); err != nil || packer.Close() != nil {
				t.Fatal(err)
			}
			if _, err := ReadReport(packed.Bytes()); !errors.Is(err, tt.want) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
		})
	}
}
