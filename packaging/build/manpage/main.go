// Command manpage prints provision.yaml(5), made from docs/configuration.md on
// stdin: `make man` writes it to docs.
package main

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"

	"github.com/cpuguy83/go-md2man/v2/md2man"
)

const (
	heading = "% provision.yaml 5 \"\" \"provision\" \"File formats\"\n\n# NAME\n\nprovision.yaml - configuration of provision\n\n# DESCRIPTION\n\n"
	trailer = "\n# SEE ALSO\n\n**provision**(8)\n"
)

var (
	title = regexp.MustCompile(`\A# .*\n`)
	// link is one to another page: a man page has the text alone.
	link = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
)

func main() {
	text, err := io.ReadAll(os.Stdin)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Stdout.Write(page(text))
}

// row is a line of a table, rule the one below its heading.
var (
	row  = regexp.MustCompile(`^\| (.*) \|$`)
	rule = regexp.MustCompile(`^\|[-|]+\|$`)
)

// listed turns tables into lists of terms: a terminal is too narrow for them.
// The first column is the term, a second of three its default.
func listed(text string) string {
	lines := strings.Split(text, "\n")
	var out []string
	for i, line := range lines {
		cells := row.FindStringSubmatch(line)
		switch {
		case rule.MatchString(line), cells != nil && i+1 < len(lines) && rule.MatchString(lines[i+1]):
		case cells == nil:
			out = append(out, line)
		default:
			out = append(out, term(strings.Split(cells[1], " | "))...)
		}
	}
	return strings.Join(out, "\n")
}

func term(cells []string) []string {
	name, meaning := cells[0], cells[len(cells)-1]
	if len(cells) == 3 {
		name += " (default: " + cells[1] + ")"
	}
	return []string{name, ": " + meaning, ""}
}

// page returns the man page of the configuration's documentation.
func page(text []byte) []byte {
	text = link.ReplaceAll(title.ReplaceAll(text, nil), []byte("$1"))
	made := ".\\\" Made by `make man` from docs/configuration.md: change that file.\n"
	return append([]byte(made), md2man.Render([]byte(heading+listed(string(text))+trailer))...)
}
