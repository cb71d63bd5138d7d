package output

import (
	"fmt"
	"io"
	"strings"

	"choria-provision/discovery"
	"choria-provision/provision"
)

// Lines tells a run as it goes on where nothing can move: one plain line for
// each node that is done and for each warning, without any escape sequence.
type Lines struct {
	w io.Writer
	LinesOptions
}

// LinesOptions say what is left out. Quiet: nodes that are skipped because they
// are held or being worked on, which is what a timer meets every minute. Brief:
// errors, for a reader that gets the summary in the same place.
type LinesOptions struct{ Quiet, Brief bool }

// NewLines returns an observer that writes to w.
func NewLines(w io.Writer, o LinesOptions) *Lines { return &Lines{w, o} }

// Observe implements Observer.
func (l *Lines) Observe(event any) {
	switch e := event.(type) {
	case discovery.Refused:
		_, advice := Advise(e.Err)
		l.line("warning: %s: %s (%s). %s", EscapeTo(e.Identity, maxName), escapeError(e.Err), plural(e.Count, "answer"), advice)
	case provision.Notice:
		l.line("warning: %s: %s: %s", EscapeTo(e.Node, maxName), e.Step, EscapeTo(e.Text, maxText))
	case provision.NodeDone:
		n := nodeOf(e.Result)
		if l.Quiet && isOrdinarySkip(n) {
			return
		}
		if l.Brief && n.Error != "" {
			n.Error, n.Version = "", ""
		}
		l.line("%s", nodeLine(n))
	}
}

func (l *Lines) line(format string, args ...any) {
	_, _ = fmt.Fprintln(l.w, strings.TrimRight(fmt.Sprintf(format, args...), " "))
}

// nodeLine is a node's end on one line: who, outcome, where, how long, why.
func nodeLine(n Node) string {
	text := n.Identity + ": " + n.Outcome
	if n.Step != "" {
		text += " at " + n.Step
	}
	if n.Duration > 0 {
		text += " after " + FormatDuration(FromSeconds(n.Duration))
	}
	if more := detail(n); more != "" {
		text += ": " + more
	}
	return text
}
