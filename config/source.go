package config

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// maxFile bounds the files that a configuration names; real ones have a few
// kilobytes.
const maxFile = 1 << 20

// parseSource turns the file into a tree. It reports the first place that is no
// YAML, and that alone: what follows reads differently once that is corrected.
func parseSource(source []byte) tree {
	source = bytes.TrimPrefix(source, []byte(byteOrderMark))
	warnings := checkText(source)
	if hasErrors(warnings) {
		return tree{problems: warnings, hopeless: true}
	}
	if p := withinBounds(string(source)); p != nil {
		return tree{problems: append(warnings, *p), hopeless: true}
	}
	text := strings.ReplaceAll(string(source), "\r\n", "\n")
	file, err := parseOnce(text)
	if err != nil {
		return tree{problems: append(warnings, syntaxProblem(err, strings.Split(text, "\n"))), hopeless: true}
	}
	root, more := onlyDocument(file)
	return tree{root: root, problems: append(warnings, more...)}
}

// tree is what could be read of a file.
type tree struct {
	root     ast.Node // nil when there is nothing in it
	problems []Problem
	hopeless bool // nothing at all could be read
}

// checkText finds, once a line, what the parser would replace or drop without a
// word, and warns of characters that are not seen: one behind a colon or in an
// indentation makes the line another than it looks. Behind a # they most likely
// stand in a comment.
func checkText(source []byte) []Problem {
	var problems []Problem
	for i, line := range bytes.Split(source, []byte("\n")) {
		column, comment := 0, false
		for rest := bytes.TrimSuffix(line, []byte("\r")); len(rest) > 0; {
			r, size := utf8.DecodeRune(rest)
			rest = rest[size:]
			column++
			comment = comment || r == '#'
			if p := checkRune(r, size); p != nil && !(comment && p.Severity == SeverityWarning) {
				p.Line, p.Column = i+1, column
				problems = append(problems, *p)
				break
			}
		}
	}
	return problems
}

func checkRune(r rune, size int) *Problem {
	switch {
	case r == utf8.RuneError && size == 1:
		return &Problem{Severity: SeverityError, Text: "this byte is not UTF-8", Remedy: "save the file as UTF-8"}
	case r < ' ' && r != '\t' || r == 0x7f:
		return &Problem{Severity: SeverityError, Text: fmt.Sprintf("a control character (0x%02x)", r), Remedy: "take it out, or write it as an escape between double quotes"}
	case notSeen(r):
		return &Problem{Severity: SeverityWarning, Text: fmt.Sprintf("a character that is not seen (%U)", r), Remedy: "take it out, or write it as an escape between double quotes"}
	}
	return nil
}

// parseOnce keeps a parser that gives up by panic from taking us with it.
func parseOnce(source string) (file *ast.File, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = errors.New("this is not YAML")
		}
	}()
	return parser.ParseBytes([]byte(source), 0, parser.AllowDuplicateMapKey())
}

func onlyDocument(file *ast.File) (ast.Node, []Problem) {
	var root ast.Node
	for _, doc := range file.Docs {
		switch {
		case doc.Body == nil || doc.Body.Type() == ast.CommentType:
		case root == nil:
			root = doc.Body
		default:
			at := placeOf(doc.Body)
			return root, []Problem{{Severity: SeverityError, Line: at.line, Column: at.column,
				Text: "a second document begins here", Remedy: "take out the line --- before it: a configuration is one document"}}
		}
	}
	return root, nil
}

// syntaxProblem reports err with its place. The parser's messages name
// characters, never the text around them, which may be a secret.
func syntaxProblem(err error, lines []string) Problem {
	p := Problem{Severity: SeverityError, Line: 1, Column: 1, Text: err.Error(), Remedy: "write one `key: value` a line"}
	var syntax yaml.Error
	if !errors.As(err, &syntax) || syntax.GetToken() == nil {
		return p
	}
	at := syntax.GetToken().Position
	p.Line, p.Column = min(max(at.Line, 1), len(lines)), max(at.Column, 1)
	if strings.Contains(syntax.GetMessage(), "must be specified") {
		p.Line, p.Column = opening(lines, p.Line, p.Column)
	}
	if tab := strings.Index(indentation(lines[p.Line-1]), "\t"); tab >= 0 {
		p.Column, p.Text, p.Remedy = tab+1, "a tab indents this line", "indent with spaces"
		return p
	}
	p.Text, p.Remedy = explain(syntax.GetMessage())
	return p
}

// opening goes up from where the parser missed a bracket's end to the line
// that opens it.
func opening(lines []string, line, column int) (int, int) {
	for i := line; i > 0; i-- {
		text := lines[i-1]
		if strings.Count(text, "[")+strings.Count(text, "{") > strings.Count(text, "]")+strings.Count(text, "}") {
			return i, strings.LastIndexAny(text, "[{") + 1
		}
	}
	return line, column
}

func indentation(line string) string { return line[:len(line)-len(strings.TrimLeft(line, " \t"))] }

// explanations say in an operator's words what the parser's messages mean; the
// first whose part is found counts.
var explanations = []struct{ part, text, remedy string }{
	{"unexpected key name", "this is no `key: value`", "write the key, a colon and a space, then the value"},
	{"non-map value", "this is no `key: value`", "write the key, a colon and a space, then the value"},
	{"mapping value is not allowed", "a colon and a space within a value, or an indentation that fits no key above", "put the value between single quotes, or align the line with its neighbours"},
	{"value is not allowed in this context", "this fits no key above", "align the line with its neighbours"},
	{"reserved character", "a value cannot begin with this character", "put the value between single quotes"},
	{"directive", "a value cannot begin with %", "put the value between single quotes"},
	{"end character of", "the closing quote is missing", "close the quote on the same line"},
	{"escape character", "a backslash between double quotes begins an escape, and this is none", "use single quotes: a backslash stands for itself there"},
	{"end token", "a bracket is not closed", "close it, or write one item a line behind `- `"},
	{"unexpected scalar", "this cannot be a value", "put the value between single quotes"},
	{"must be specified", "a bracket is not closed", "close it, or write one item a line behind `- `"},
	{"tab character", "a tab stands where spaces must be", "write spaces"},
}

func explain(message string) (text, remedy string) {
	for _, e := range explanations {
		if strings.Contains(message, e.part) {
			return e.text, e.remedy
		}
	}
	return "this is not YAML: " + message, "write one `key: value` a line"
}
