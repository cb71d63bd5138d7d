package commands

import (
	"slices"
	"strings"
	"testing"

	"mvdan.cc/sh/v3/syntax"
)

// Languages of blocks in the documents. Commands are in sh and console alone.
var (
	commandLanguages = []string{"sh", "console"}
	otherLanguages   = []string{"text", "yaml", "ini", "mermaid"}
)

// TestEveryBlockSaysWhatItIs leaves no block out of the tests below for want of a
// language, and no command in a block that is not tested as one.
func TestEveryBlockSaysWhatItIs(t *testing.T) {
	t.Parallel()
	for _, b := range codeBlocks(t) {
		switch {
		case slices.Contains(commandLanguages, b.language):
		case !slices.Contains(otherLanguages, b.language):
			t.Errorf("%s: the block %q is in %q, want one of %v or %v behind its fence", b.page, b.first(), b.language, commandLanguages, otherLanguages)
		case strings.HasPrefix(b.text, "$ ") || strings.Contains(b.text, "\n$ "):
			t.Errorf("%s: the block %q holds commands, want the language console", b.page, b.first())
		}
	}
}

func codeBlocks(t *testing.T) (all []codeBlock) {
	t.Helper()
	for _, p := range pages(t) {
		all = append(all, p.blocks...)
	}
	return all
}

// commandBlocks are those that hold commands.
func commandBlocks(t *testing.T) []codeBlock {
	t.Helper()
	return slices.DeleteFunc(codeBlocks(t), func(b codeBlock) bool { return !slices.Contains(commandLanguages, b.language) })
}

// typed is one command of a console block and the output shown with it.
type typed struct{ command, output string }

// script is what the block has a reader type.
func (b codeBlock) script() string {
	if b.language == "sh" {
		return b.text
	}
	var s strings.Builder
	for _, c := range b.session() {
		s.WriteString(c.command + "\n")
	}
	return s.String()
}

// session splits a console block at its prompts.
func (b codeBlock) session() (all []typed) {
	for part := range strings.SplitSeq("\n"+b.text, "\n$ ") {
		command, output, _ := strings.Cut(part, "\n")
		if command != "" {
			all = append(all, typed{command, strings.TrimRight(output, "\n")})
		}
	}
	return all
}

// TestEveryDocumentedCommandParses reads each block as bash would and has the
// program's own parser accept each of its command lines in it.
func TestEveryDocumentedCommandParses(t *testing.T) {
	t.Parallel()
	seen := 0
	for _, b := range commandBlocks(t) {
		lines, err := provisionLines(b.script())
		if err != nil {
			t.Errorf("%s: the block %q: %v", b.page, b.first(), err)
		}
		for _, args := range lines {
			seen++
			if err := newApp(Streams{}).parse(args); err != nil {
				t.Errorf("%s: provision %s: %v", b.page, strings.Join(args, " "), err)
			}
		}
	}
	if seen < 10 {
		t.Errorf("found %d command lines of provision, want the many that the documents hold", seen)
	}
}

// provisionLines returns the arguments of each call of provision in a script, also
// of calls through another command and in a script that sh -c is given.
func provisionLines(script string) (lines [][]string, err error) {
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(script), "")
	if err != nil {
		return nil, err
	}
	syntax.Walk(file, func(n syntax.Node) bool {
		call, ok := n.(*syntax.CallExpr)
		if !ok {
			return true
		}
		words := make([]string, len(call.Args))
		for i, word := range call.Args {
			words[i] = literal(word)
		}
		for i, word := range words {
			switch {
			case isProvision(words, i):
				lines = append(lines, words[i+1:])
			case word == "-c" && i+1 < len(words) && words[i-1] == "sh":
				inner, wrong := provisionLines(words[i+1])
				lines, err = append(lines, inner...), wrong
			}
		}
		return true
	})
	return lines, err
}

// isProvision reports whether the word at i is the program of a command, whatever
// runs it.
func isProvision(words []string, i int) bool {
	switch words[i] {
	case "provision", "bin/provision":
		return i == 0 || words[i-1] == "sudo" || words[i-1] == "--"
	case "provision-as-service":
		return true
	}
	return false
}

// literal is the word's text without quotes; an expansion stands as it is written.
func literal(word *syntax.Word) string {
	var s strings.Builder
	var add func(parts []syntax.WordPart)
	add = func(parts []syntax.WordPart) {
		for _, part := range parts {
			switch part := part.(type) {
			case *syntax.Lit:
				s.WriteString(part.Value)
			case *syntax.SglQuoted:
				s.WriteString(part.Value)
			case *syntax.DblQuoted:
				add(part.Parts)
			default:
				_ = syntax.NewPrinter().Print(&s, part)
			}
		}
	}
	add(word.Parts)
	return s.String()
}

func TestProvisionLinesAreFound(t *testing.T) {
	t.Parallel()
	script := "cd /etc && provision config check   # comment\nrunuser -u x -- provision once --match 'a b'\nsudo provision-as-service discover\nbin/provision lab --helper \"$PWD/h.sh\" -- sh -c 'provision once; sleep 5; provision status'\ninstall bin/provision /usr/bin/provision\n"
	got, err := provisionLines(script)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"config check", "once --match a b", "discover", "lab --helper $PWD/h.sh -- sh -c provision once; sleep 5; provision status", "once", "status"}
	var lines []string
	for _, args := range got {
		lines = append(lines, strings.Join(args, " "))
	}
	if !slices.Equal(lines, want) {
		t.Errorf("got %q, want %q", lines, want)
	}
	if _, err := provisionLines("if true; then\n"); err == nil {
		t.Error("half a script is found to be good")
	}
}
