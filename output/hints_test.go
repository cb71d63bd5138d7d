package output

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
	"testing"

	"choria-provision/discovery"
	"choria-provision/provision"
	"choria-provision/provision/helper"
)

// sentinels reads the texts of all errors.New of a source file by name.
func sentinels(t *testing.T, path string) map[string]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 || !strings.HasPrefix(spec.Names[0].Name, "Err") {
			return true
		}
		if call, ok := spec.Values[0].(*ast.CallExpr); ok && len(call.Args) == 1 {
			if lit, ok := call.Args[0].(*ast.BasicLit); ok {
				found[spec.Names[0].Name], _ = strconv.Unquote(lit.Value)
			}
		}
		return true
	})
	return found
}

func TestEveryCauseHasHint(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	for _, c := range causes {
		known[c.err.Error()] = true
	}
	for _, path := range []string{"../provision/causes.go", "../provision/trust/trust.go", "../provision/helper/helper.go", "../discovery/admit.go"} {
		found := sentinels(t, path)
		if len(found) < 2 {
			t.Errorf("got %d sentinels in %s, want all of them", len(found), path)
		}
		for name, text := range found {
			if !known[text] {
				t.Errorf("%s: got no hint for %s, want a row", path, name)
			}
		}
	}
}

func TestHintFitsTheCause(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		err  error
		want string
	}{
		{"nothing", nil, ""},
		{"a cause", provision.ErrNoReply, "no_reply"},
		{"where it happened does not matter", located("web1", "jwt", fmt.Errorf("asking: %w", provision.ErrTwins)), "twins"},
		{"twins of discovery are twins", discovery.ErrTwins, "twins"},
		{"a refused token", &provision.Refused{Message: "Incorrect provision token supplied"}, "token"},
		{"a refusal in other words", &provision.Refused{Message: "no"}, "refused"},
		{"the first of two causes", errors.Join(helper.ErrFailed, helper.ErrTimeout), "helper_timeout"},
		{"something else", errors.New("something else"), otherCause},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			id, hint := Hint(tt.err)
			if id != tt.want {
				t.Errorf("got %q, want %q", id, tt.want)
			}
			if (hint != "") != (id != "" && id != otherCause) {
				t.Errorf("got hint %q for %q", hint, id)
			}
		})
	}
}

func TestHintTable(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	for _, c := range causes {
		fmt.Fprintf(&text, "%s: %v\n    %s\n", c.id, c.err, c.hint)
	}
	golden(t, "hints.golden", text.String())
}
