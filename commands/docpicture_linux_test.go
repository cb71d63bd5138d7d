package commands

import (
	"fmt"
	"html"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"choria-provision/internal/lab"

	"github.com/charmbracelet/x/ansi"
	"github.com/google/go-cmp/cmp"
)

// pictureText is what a terminal showed of a run, with its colours; pictureFile is
// the picture of that for the README.
const (
	pictureText = "../docs/run.ansi"
	pictureFile = "../docs/run.svg"
)

// pictureHelper knows two of four nodes, and has the lab's own helper answer.
const pictureHelper = `#!/bin/sh
input=$(cat)
case $input in
'{"identity":"node2.'*) echo "no such host in the inventory database" >&2; exit 1 ;;
'{"identity":"node3.'*) echo '{"defer": true, "msg": "its owner has not confirmed it"}' ;;
*) printf '%s' "$input" | "${PROVISION_CONFIG%/*}/bin/lab-helper" ;;
esac
`

// TestPictureShowsARun runs in a lab what the README's picture shows and holds the
// picture's text to it, but for times. With -update it takes the text anew.
func TestPictureShowsARun(t *testing.T) {
	t.Parallel()
	helper := filepath.Join(t.TempDir(), "helper.sh")
	putScript(t, helper, pictureHelper)
	l := startLab(t, lab.Options{Nodes: 4, Enrollment: lab.Issuer, Helper: helper})
	var session strings.Builder
	for _, step := range []struct {
		args []string
		code int
	}{{[]string{"discover"}, exitDone}, {[]string{"once"}, exitNodes}} {
		r := runIn(t, l, append(step.args, "--color", "always")...)
		if r.code != step.code {
			t.Fatalf("%v: got exit code %d, want %d\n%s%s", step.args, r.code, step.code, r.stdout, r.stderr)
		}
		fmt.Fprintf(&session, "$ provision %s\n%s", strings.Join(step.args, " "), r.stdout)
	}
	got := strings.ReplaceAll(session.String(), helper, "/etc/choria-provision/helper.sh")
	if *update {
		rewrite(t, pictureText, got)
	}
	seconds := regexp.MustCompile(`\d+\.\ds`)
	untimed := func(text string) string { return seconds.ReplaceAllString(text, "0.0s") }
	if diff := cmp.Diff(untimed(document(t, pictureText)), untimed(got)); diff != "" {
		t.Errorf("docs/run.ansi is not what a run shows; `make picture` takes it anew (-want +got):\n%s", diff)
	}
	if *update {
		rewrite(t, pictureFile, picture(got))
	}
}

func rewrite(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestPictureIsCurrent holds the picture to its text.
func TestPictureIsCurrent(t *testing.T) {
	t.Parallel()
	if *update {
		t.Skip("TestPictureShowsARun writes it")
	}
	if diff := cmp.Diff(picture(document(t, pictureText)), document(t, pictureFile)); diff != "" {
		t.Errorf("docs/run.svg does not show docs/run.ansi; `make picture` draws it (-want +got):\n%s", diff)
	}
	if !strings.Contains(document(t, "../README.md"), "](docs/run.svg)") {
		t.Error("the README does not show docs/run.svg")
	}
}

// Sizes of the picture: a terminal of so many columns, in pixels.
const (
	pictureColumns   = 110
	columnWidth      = 8
	lineHeight       = 19
	pictureMargin    = 16
	pictureTextStart = pictureMargin + 13 // baseline of the first line
)

// ansiColors maps the colours that the product uses to the picture's.
var ansiColors = map[string]string{"31": "#ff7b72", "32": "#7ee787", "33": "#e3b341", "36": "#79c0ff"}

// picture draws what a terminal shows for text as SVG.
func picture(text string) string {
	lines := strings.Split(strings.TrimRight(ansi.Hardwrap(text, pictureColumns, true), "\n"), "\n")
	width, height := 2*pictureMargin+pictureColumns*columnWidth, 2*pictureMargin+len(lines)*lineHeight
	var s strings.Builder
	fmt.Fprintf(&s, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d">`+"\n", width, height, width, height)
	fmt.Fprintf(&s, `<rect width="%d" height="%d" rx="8" fill="#0d1117"/>`+"\n", width, height)
	s.WriteString(`<g font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace" font-size="13" fill="#e6edf3">` + "\n")
	style := ""
	for i, line := range lines {
		var spans string
		spans, style = drawLine(line, style)
		if spans != "" {
			fmt.Fprintf(&s, `<text x="%d" y="%d">%s</text>`+"\n", pictureMargin, pictureTextStart+i*lineHeight, spans)
		}
	}
	return s.String() + "</g>\n</svg>\n"
}

// cell is text without a gap: each begins at its own column, so that tables are
// straight whatever the width of a letter in the font.
var cell = regexp.MustCompile(`\S+(?: \S+)*`)

// styleChange is an escape sequence that sets colours and weight.
var styleChange = regexp.MustCompile(`\x1b\[([0-9;]*)m`)

// drawLine returns the line's spans, each at its column, and the style that the
// next line begins with.
func drawLine(line, style string) (spans, next string) {
	column := 0
	span := func(text string) {
		for _, m := range cell.FindAllStringIndex(text, -1) {
			x := pictureMargin + (column+ansi.StringWidth(text[:m[0]]))*columnWidth
			spans += fmt.Sprintf(`<tspan x="%d"%s>%s</tspan>`, x, style, html.EscapeString(text[m[0]:m[1]]))
		}
		column += ansi.StringWidth(text)
	}
	at := 0
	for _, m := range styleChange.FindAllStringSubmatchIndex(line, -1) {
		span(line[at:m[0]])
		style, at = attributes(line[m[2]:m[3]]), m[1]
	}
	span(line[at:])
	return spans, style
}

// attributes are those of SVG for the parameters of a style change.
func attributes(parameters string) (s string) {
	for p := range strings.SplitSeq(parameters, ";") {
		switch color, known := ansiColors[p]; {
		case known:
			s += ` fill="` + color + `"`
		case p == "1":
			s += ` font-weight="bold"`
		case p == "2":
			s += ` fill-opacity="0.6"`
		}
	}
	return s
}

func TestPictureDrawsStyles(t *testing.T) {
	t.Parallel()
	got, style := drawLine("a  b \x1b[1;31m<b>\x1b[0m c \x1b[33md", "")
	want := `<tspan x="16">a</tspan><tspan x="40">b</tspan><tspan x="56" font-weight="bold" fill="#ff7b72">&lt;b&gt;</tspan><tspan x="88">c</tspan><tspan x="104" fill="#e3b341">d</tspan>`
	if got != want || style != ` fill="#e3b341"` {
		t.Errorf("got %s and then %q, want %s and then the last colour", got, style, want)
	}
}
