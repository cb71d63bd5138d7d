package commands

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	reflected "github.com/invopop/jsonschema"
	"github.com/rogpeppe/go-internal/testscript"
	"github.com/santhosh-tekuri/jsonschema/v5"
)

// documentTypes are the documents that `--output json` prints, by the name of
// their schema in docs/schemas. The report of a run has docs/report.schema.json.
var documentTypes = map[string]any{
	"config-check": verdict{},
	"discover":     discovered{},
	"helper-run":   trialReport{},
	"lifecycle":    lifecycleDocument{},
	"pause":        pauseState{},
	"reset":        resetDocument{},
	"status":       statusDocument{},
	"version":      versions{},
}

func schemaFile(name string) string {
	if name == "report" {
		return filepath.Join("..", "docs", "report.schema.json")
	}
	return filepath.Join("..", "docs", "schemas", name+".schema.json")
}

// schemaText makes the schema of a document from its type. A reader has to
// accept fields that it does not know: a later version may add some.
func schemaText(t *testing.T, name string, document any) []byte {
	t.Helper()
	r := reflected.Reflector{Anonymous: true, ExpandedStruct: true, AllowAdditionalProperties: true}
	schema := r.Reflect(document)
	schema.Title = "Document of provision: " + name
	schema.Description = "Durations are in seconds, times as in RFC 3339. A later version may add fields without raising schema_version."
	text, err := json.MarshalIndent(schema, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return append(text, '\n')
}

func TestSchemasFollowTheDocuments(t *testing.T) {
	t.Parallel()
	for name, document := range documentTypes {
		text := schemaText(t, name, document)
		if *update {
			if err := os.WriteFile(schemaFile(name), text, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(schemaFile(name)); err != nil || !bytes.Equal(got, text) {
			t.Errorf("docs/schemas/%s.schema.json is not what the document is (%v): run this test with -update", name, err)
		}
	}
}

// validate is the script command `valid SCHEMA [FILE]`: the file, or else stdout
// of the last command, is one JSON document that has its schema and no field
// beyond.
func validate(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 || len(args) > 2 {
		ts.Fatalf("usage: valid report|%s [FILE]", strings.Join(slices.Sorted(maps.Keys(documentTypes)), "|"))
	}
	ts.Check(checkDocument(args[0], ts.ReadFile(append(args, "stdout")[1])))
}

// checkDocument holds a document to its schema, and to the schema's fields.
func checkDocument(name, text string) error {
	schema, err := os.ReadFile(schemaFile(name))
	if err != nil {
		return err
	}
	strict := strings.ReplaceAll(string(schema), `"type": "object"`, `"type": "object", "unevaluatedProperties": false`)
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("strict.json", strings.NewReader(strict)); err != nil {
		return err
	}
	compiled, err := compiler.Compile("strict.json")
	if err != nil {
		return err
	}
	var document any
	decoder := json.NewDecoder(strings.NewReader(text))
	if err := decoder.Decode(&document); err != nil {
		return fmt.Errorf("stdout is no JSON document: %w\n%s", err, text)
	}
	if decoder.More() {
		return fmt.Errorf("stdout holds more than one JSON document:\n%s", text)
	}
	if err := compiled.Validate(document); err != nil {
		return fmt.Errorf("%s: %#v\n%s", name, err, text) //nolint:errorlint // %#v lists every cause, %w only the first
	}
	return nil
}
