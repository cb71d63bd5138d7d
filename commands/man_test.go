package commands

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"text/template"

	"github.com/choria-io/fisk"
	"github.com/google/go-cmp/cmp"
)

// manual is what the man page is made from.
type manual struct {
	Flags    []*fisk.FlagModel
	Commands []*fisk.CmdModel
	Codes    []codeMeaning
}

type codeMeaning struct {
	Code    int
	Meaning string
}

// roff escapes what troff would take for something else: a hyphen that is
// typed, and a line that begins like a request.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, `-`, `\-`).Replace(text)
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") {
		text = `\&` + text
	}
	return text
}

func manPage(t *testing.T) []byte {
	t.Helper()
	page, err := template.New("provision.8.tmpl").Funcs(template.FuncMap{"text": roff}).ParseFiles(filepath.Join("testdata", "provision.8.tmpl"))
	if err != nil {
		t.Fatal(err)
	}
	model := newApp(Streams{}).cli.Model()
	var text bytes.Buffer
	err = page.Execute(&text, manual{Flags: model.Flags, Commands: model.Commands, Codes: exitMeanings(t)})
	if err != nil {
		t.Fatal(err)
	}
	return text.Bytes()
}

// TestManPageIsCurrent holds docs/provision.8 to the program; `make man` renews it.
func TestManPageIsCurrent(t *testing.T) {
	t.Parallel()
	const path = "../docs/provision.8"
	want := manPage(t)
	if *update {
		if err := os.WriteFile(path, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("docs/provision.8 is not current, run make man (-want +got):\n%s", diff)
	}
}
