package commands

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

// page is one document as its tests see it.
type page struct {
	path    string // from the root of the repository
	blocks  []codeBlock
	links   []string // destinations, images' included
	anchors []string // of its headings
}

// codeBlock is a block of code in a page.
type codeBlock struct {
	page, section  string // section is the anchor of the heading above it
	language, text string
}

// first is the block's first line, which names the block within its page.
func (b codeBlock) first() string {
	line, _, _ := strings.Cut(b.text, "\n")
	return line
}

// documentPaths lists all documents for users, from the directory of the tests.
func documentPaths(t *testing.T) []string {
	t.Helper()
	paths, err := filepath.Glob("../docs/*.md")
	if err != nil || len(paths) == 0 {
		t.Fatalf("found no documents: %v", err)
	}
	return append([]string{"../README.md", "../CHANGELOG.md"}, paths...)
}

// pages reads every document.
func pages(t *testing.T) (all []page) {
	t.Helper()
	for _, path := range documentPaths(t) {
		source, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, readPage(strings.TrimPrefix(path, "../"), source))
	}
	return all
}

func readPage(path string, source []byte) page {
	p := page{path: path}
	markdown := goldmark.New(goldmark.WithExtensions(extension.Table), goldmark.WithParserOptions(parser.WithAutoHeadingID()))
	section := ""
	root := markdown.Parser().Parse(text.NewReader(source))
	_ = ast.Walk(root, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Heading:
			if id, ok := n.AttributeString("id"); ok {
				section = string(id.([]byte))
				p.anchors = append(p.anchors, section)
			}
		case *ast.Link:
			p.links = append(p.links, string(n.Destination))
		case *ast.Image:
			p.links = append(p.links, string(n.Destination))
		case *ast.FencedCodeBlock:
			p.blocks = append(p.blocks, codeBlock{path, section, string(n.Language(source)), linesOf(n, source)})
		case *ast.CodeBlock:
			p.blocks = append(p.blocks, codeBlock{path, section, "", linesOf(n, source)})
		}
		return ast.WalkContinue, nil
	})
	return p
}

func linesOf(n ast.Node, source []byte) string {
	var b bytes.Buffer
	for _, segment := range n.Lines().Sliced(0, n.Lines().Len()) {
		b.Write(segment.Value(source))
	}
	return b.String()
}

// TestPagesAreRead holds readPage to one page of every kind of element.
func TestPagesAreRead(t *testing.T) {
	t.Parallel()
	source := "# Who may `run` it?\n\n1. a [link](docs/x.md#y) and ![a picture](run.svg)\n\n   ```sh\n   provision once\n   ```\n\n| a |\n|---|\n| [b](c.md) |\n\n    indented\n"
	got := readPage("README.md", []byte(source))
	if !slices.Equal(got.anchors, []string{"who-may-run-it"}) || !slices.Equal(got.links, []string{"docs/x.md#y", "run.svg", "c.md"}) {
		t.Errorf("got anchors %q and links %q, want one and three", got.anchors, got.links)
	}
	want := []codeBlock{{"README.md", "who-may-run-it", "sh", "provision once\n"}, {"README.md", "who-may-run-it", "", "indented\n"}}
	if !slices.Equal(got.blocks, want) {
		t.Errorf("got blocks %q, want %q", got.blocks, want)
	}
}
