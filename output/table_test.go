package output

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// rendered is what write puts on a page of that width, without colour.
func rendered(t *testing.T, width int, write func(*Page)) string {
	t.Helper()
	var text bytes.Buffer
	p := NewPage(&text, PageOptions{Color: "never"})
	p.width = width
	write(p)
	if p.Err() != nil {
		t.Error(p.Err())
	}
	return text.String()
}

func lines(text ...string) string { return strings.Join(text, "\n") + "\n" }

func TestTableLayout(t *testing.T) {
	t.Parallel()
	node, took, detail := Column{Title: "NODE"}, Column{Title: "TIME", Right: true}, Column{Title: "DETAIL", Flex: true}
	tests := []struct {
		name  string
		width int
		table Table
		want  string
	}{
		{"titles without rows", 0, Table{Columns: []Column{node, took}}, lines("")},
		{"columns are as wide as their widest cell", 0, Table{[]Column{node, detail}, [][]Cell{Cells("a", "x"), Cells("longer", "y")}}, lines("NODE    DETAIL", "a       x", "longer  y")},
		{"numbers are aligned right", 0, Table{[]Column{node, took, detail}, [][]Cell{Cells("a", "3s", "x"), Cells("b", "1m40s", "y")}}, lines("NODE   TIME  DETAIL", "a        3s  x", "b     1m40s  y")},
		{"an empty column is left out", 0, Table{[]Column{node, took, detail}, [][]Cell{Cells("a", "", "x"), Cells("b", "", "y")}}, lines("NODE  DETAIL", "a     x", "b     y")},
		{"no blanks end a line", 0, Table{[]Column{node, took, detail}, [][]Cell{Cells("a", "1s", ""), Cells("b", "", "y")}}, lines("NODE  TIME  DETAIL", "a       1s", "b           y")},
		{"a wide character takes two columns", 0, Table{[]Column{node, detail}, [][]Cell{Cells("東京", "x"), Cells("abcde", "y")}}, lines("NODE   DETAIL", "東京   x", "abcde  y")},
		{"cells are escaped", 0, Table{[]Column{node}, [][]Cell{Cells("a\x1b[2J\nb")}}, lines("NODE", `a\x1b[2J\nb`)},
		{"what fits is whole", 15, Table{[]Column{node, detail}, [][]Cell{Cells("abcdef", "ghijklm")}}, lines("NODE    DETAIL", "abcdef  ghijklm")},
		{"remarks are cut first", 18, Table{[]Column{node, detail}, [][]Cell{Cells("abcdefgh", "0123456789")}}, lines("NODE      DETAIL", "abcdefgh  0123456…")},
		{"then the widest column", 16, Table{[]Column{node, detail}, [][]Cell{Cells("abcdefgh", "0123456789")}}, lines("NODE     DETAIL", "abcdef…  012345…")},
		{"two remarks are cut alike", 22, Table{[]Column{detail, detail}, [][]Cell{Cells("0123456789abcd", "0123456789ab")}}, lines("DETAIL      DETAIL", "012345678…  012345678…")},
		{"a column keeps six columns", 1, Table{[]Column{node, took}, [][]Cell{Cells("abcdefgh", "12345678")}}, lines("NODE      TIME", "abcde…  12345…")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, rendered(t, tt.width, func(p *Page) { p.Table(tt.table) })); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestPageLayout(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		width int
		write func(*Page)
		want  string
	}{
		{"heading, text and blank", 0, func(p *Page) { p.Heading("Nodes"); p.Blank(); p.Text(Good, "all well") }, lines("Nodes", "", "all well")},
		{"a warning begins with its word", 0, func(p *Page) { p.Warning("watch out") }, lines("warning: watch out")},
		{"items are indented", 0, func(p *Page) { p.Item(1, Plain, "one"); p.Item(2, Dim, "two") }, lines("  one", "    two")},
		{"text is wrapped at the width", 24, func(p *Page) { p.Text(Plain, "one two three four five six") }, lines("one two three four five", "six")},
		{"an item is wrapped within its indent", 24, func(p *Page) { p.Item(2, Plain, "one two three four five") }, lines("    one two three four", "    five")},
		{"a pipe wraps nothing", 0, func(p *Page) { p.Text(Plain, strings.Repeat("word ", 60)) }, strings.Repeat("word ", 60) + "\n"},
		{"texts are escaped", 0, func(p *Page) { p.Text(Plain, "a\x07\u202eb") }, lines(`a\a\u202eb`)},
		{"values are aligned", 0, func(p *Page) { p.Pairs(Pair{Name: "a", Value: "1"}, Pair{Name: "longer", Value: "2"}) }, lines("a       1", "longer  2")},
		{"a pair without value has no blanks", 0, func(p *Page) { p.Pairs(Pair{Name: "a"}, Pair{Name: "b", Value: "2"}) }, lines("a", "b  2")},
		{"a value is wrapped below itself", 26, func(p *Page) { p.Pairs(Pair{Name: "key", Value: "one two three four five"}) }, lines("key  one two three four", "     five")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, rendered(t, tt.width, tt.write)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestTonesLookDifferent(t *testing.T) {
	t.Parallel()
	var text bytes.Buffer
	p := NewPage(&text, PageOptions{Color: "always"})
	seen := map[string]Tone{}
	for _, tone := range []Tone{Plain, Dim, Strong, Good, Warn, Bad} {
		shown := p.paint(tone, "x")
		if other, twice := seen[shown]; twice {
			t.Errorf("got tone %d shown as %d: %q", tone, other, shown)
		}
		seen[shown] = tone
		if p.paint(tone, "") != "" {
			t.Errorf("got sequences around an empty text of tone %d", tone)
		}
	}
}
