package output

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/charmbracelet/lipgloss"
	"github.com/charmbracelet/x/ansi"
	"github.com/muesli/termenv"
	"golang.org/x/term"
)

// Tone is the meaning of a text, for which a page selects the style.
type Tone int

// The tones, from unremarkable to alarming.
const (
	Plain  Tone = iota
	Dim         // only for completeness
	Strong      // to be seen first
	Good
	Warn
	Bad
)

// The least and the greatest width of a page on a terminal, in columns. Narrower
// tables are useless, and wider lines are hard to follow.
const (
	minWidth = 60
	maxWidth = 200
)

// PageOptions select how a page looks. Color is auto, always or never; auto means
// colour on a terminal unless NO_COLOR is set. Width is in columns; 0 means the
// width of the terminal, or no limit in a pipe or a file, where nothing is cut.
type PageOptions struct {
	Color string
	Width int
}

// Page writes text for people, in one style for all commands. It escapes every
// text. It uses the terminal's own sixteen colours, which are readable on a light
// and a dark background without a query to the terminal.
type Page struct {
	w      io.Writer
	width  int // 0: no limit
	styles map[Tone]lipgloss.Style
	err    error
}

// NewPage returns a page on w.
func NewPage(w io.Writer, o PageOptions) *Page {
	width := o.Width
	if width == 0 {
		width = terminalWidth(w)
	}
	if width > 0 {
		width = min(max(width, minWidth), maxWidth)
	}
	return &Page{w: w, width: width, styles: styles(w, o.Color)}
}

// IsTerminal reports whether w is a terminal with cursor movement.
func IsTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb"
}

func terminalWidth(w io.Writer) int {
	if f, ok := w.(*os.File); ok && IsTerminal(w) {
		if width, _, err := term.GetSize(int(f.Fd())); err == nil {
			return width
		}
	}
	return 0
}

func colored(w io.Writer, mode string) bool {
	switch mode {
	case "always":
		return true
	case "never":
		return false
	default:
		return IsTerminal(w) && os.Getenv("NO_COLOR") == ""
	}
}

func styles(w io.Writer, mode string) map[Tone]lipgloss.Style {
	profile := termenv.Ascii
	if colored(w, mode) {
		profile = termenv.ANSI
	}
	r := lipgloss.NewRenderer(w)
	r.SetColorProfile(profile)   // otherwise lipgloss reads the environment
	r.SetHasDarkBackground(true) // otherwise lipgloss may query the terminal
	return map[Tone]lipgloss.Style{
		Plain:  r.NewStyle(),
		Dim:    r.NewStyle().Faint(true),
		Strong: r.NewStyle().Bold(true),
		Good:   r.NewStyle().Foreground(lipgloss.ANSIColor(2)),
		Warn:   r.NewStyle().Foreground(lipgloss.ANSIColor(3)),
		Bad:    r.NewStyle().Foreground(lipgloss.ANSIColor(1)).Bold(true),
	}
}

// Err returns the first error of a write to the page.
func (p *Page) Err() error { return p.err }

// Heading writes the title of a section.
func (p *Page) Heading(text string) { p.Text(Strong, text) }

// Text writes a paragraph, wrapped at the width of the page.
func (p *Page) Text(tone Tone, text string) { p.block("", tone, text) }

// Item writes a paragraph below a heading, indented by two blanks per depth.
func (p *Page) Item(depth int, tone Tone, text string) {
	p.block(strings.Repeat("  ", depth), tone, text)
}

// Warning writes a paragraph that begins with a word, for pages without colour.
func (p *Page) Warning(text string) { p.Text(Warn, "warning: "+text) }

// Blank writes an empty line.
func (p *Page) Blank() { p.print("\n") }

// Pair is a name and its value.
type Pair struct {
	Name, Value string
	Tone        Tone // of the value
}

// Pairs writes names and values below each other, values aligned.
func (p *Page) Pairs(pairs ...Pair) {
	width := 0
	for _, pair := range pairs {
		width = max(width, ansi.StringWidth(Escape(pair.Name)))
	}
	for _, pair := range pairs {
		name := Escape(pair.Name)
		lead := name + strings.Repeat(" ", width-ansi.StringWidth(name)+2)
		lines := p.wrap(Escape(pair.Value), width+2)
		for i, line := range lines {
			if i > 0 {
				lead = strings.Repeat(" ", width+2)
			}
			p.print(strings.TrimRight(lead+p.paint(pair.Tone, line), " ") + "\n")
		}
	}
}

func (p *Page) block(indent string, tone Tone, text string) {
	for _, line := range p.wrap(Escape(text), len(indent)) {
		p.print(indent + p.paint(tone, line) + "\n")
	}
}

// wrap breaks an escaped text into lines that fit after indent columns.
func (p *Page) wrap(text string, indent int) []string {
	if p.width == 0 {
		return []string{text}
	}
	return strings.Split(ansi.Wrap(text, max(p.width-indent, minWidth/3), ""), "\n")
}

func (p *Page) paint(tone Tone, text string) string {
	if text == "" {
		return ""
	}
	return p.styles[tone].Render(text)
}

func (p *Page) print(text string) {
	if _, err := fmt.Fprint(p.w, text); err != nil && p.err == nil {
		p.err = err
	}
}
