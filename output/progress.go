package output

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"choria-provision/discovery"
	"choria-provision/provision"

	"github.com/charmbracelet/x/ansi"
)

// silentAfter is the time after which a node at its first call counts as silent. A
// node that runs answers in a fraction of a second.
const silentAfter = 3 * time.Second

// progress is the model of a run that the live view draws.
type progress struct {
	started  time.Time
	found    int
	planned  int
	done     int
	outcomes map[string]int
	called   map[string]time.Time // by identity, the start of the first call
	busy     map[string]work
	last     string // the latest failure
}

// work is the step at which a node occupies a worker.
type work struct {
	step  string
	since time.Time
}

func newProgress(now time.Time) *progress {
	return &progress{started: now, outcomes: map[string]int{}, called: map[string]time.Time{}, busy: map[string]work{}}
}

func (m *progress) observe(event any, now time.Time) {
	switch e := event.(type) {
	case discovery.Admitted:
		m.found++
	case provision.RunStarted:
		m.planned += e.Nodes
	case provision.NodeStarted:
		m.called[e.Node] = now
	case provision.NodeAssigned:
		delete(m.called, e.Node)
		m.busy[e.Node] = work{"answered", now}
	case provision.StepStarted:
		if _, ok := m.busy[e.Node]; ok {
			m.busy[e.Node] = work{e.Step, now}
		}
	case provision.NodeDone:
		if m.underWay(e.Node) { // nodes skipped before their first call are not in planned
			delete(m.called, e.Node)
			delete(m.busy, e.Node)
			m.done++
		}
		m.outcomes[string(e.Outcome)]++
		if e.Outcome == provision.Failed {
			m.last = fmt.Sprintf("%s at %s: %s", EscapeTo(e.Node, maxName), e.Step, escapeError(withoutLocation(e.Err)))
		}
	}
}

func (m *progress) underWay(node string) bool {
	_, called := m.called[node]
	_, busy := m.busy[node]
	return called || busy
}

// frame returns at most height lines, none wider than the page.
func (m *progress) frame(p *Page, now time.Time, height int) []string {
	elapsed := now.Sub(m.started)
	if m.planned == 0 {
		line := fmt.Sprintf("Discovering: %d found, %s", m.found, FormatDuration(elapsed))
		return []string{ansi.Truncate(line, p.width, "…")}
	}
	lines := []string{m.bar(p, now)}
	if counts := m.counts(p); counts != "" {
		lines = append(lines, "  "+counts)
	}
	if m.last != "" {
		lines = append(lines, "  "+p.paint(Bad, "last failure")+" "+m.last)
	}
	calls := m.firstCalls(now)
	lines = append(lines, m.workers(now, height-len(lines)-len(calls))...)
	lines = append(lines, calls...)
	for i, line := range lines {
		lines[i] = ansi.Truncate(line, p.width, "…")
	}
	return lines
}

func (m *progress) bar(p *Page, now time.Time) string {
	cells := max(10, p.width/4)
	full := min(cells, cells*m.done/m.planned)
	bar := p.paint(Good, strings.Repeat("█", full)) + p.paint(Dim, strings.Repeat("░", cells-full))
	text := fmt.Sprintf(" %d of %d, %s", m.done, m.planned, FormatDuration(now.Sub(m.started)))
	return bar + text + m.estimate(now)
}

// estimate returns the time that the remaining nodes take at the average pace. It
// leaves silent nodes out: those take their timeouts, at any pace.
func (m *progress) estimate(now time.Time) string {
	silent := m.silent(now)
	rest := m.planned - m.done - silent
	if m.done == 0 || rest <= 0 {
		return ""
	}
	left := now.Sub(m.started) / time.Duration(m.done) * time.Duration(rest)
	text := ", about " + FormatDuration(left) + " left"
	if silent > 0 {
		text += fmt.Sprintf(" without the %d silent", silent)
	}
	return text
}

// silent counts the nodes at their first call for longer than silentAfter.
func (m *progress) silent(now time.Time) int {
	count := 0
	for _, since := range m.called {
		if now.Sub(since) >= silentAfter {
			count++
		}
	}
	return count
}

func (m *progress) counts(p *Page) string {
	var parts []string
	for _, outcome := range provision.Outcomes {
		if n := m.outcomes[string(outcome)]; n > 0 {
			parts = append(parts, p.paint(outcomeTone(string(outcome)), fmt.Sprintf("%d %s", n, outcome)))
		}
	}
	return strings.Join(parts, "  ")
}

// firstCalls returns a line with the number of nodes at their first call, or none.
func (m *progress) firstCalls(now time.Time) []string {
	if len(m.called) == 0 {
		return nil
	}
	oldest := now
	for _, since := range m.called {
		if since.Before(oldest) {
			oldest = since
		}
	}
	return []string{fmt.Sprintf("  %d at their first call, the longest for %s", len(m.called), FormatDuration(now.Sub(oldest)))}
}

// workers returns a line for each busy node, the longest at its step first, since
// the reader looks for a node that hangs.
func (m *progress) workers(now time.Time, room int) []string {
	names := make([]string, 0, len(m.busy))
	width := 0
	for name := range m.busy {
		names = append(names, name)
		width = max(width, ansi.StringWidth(EscapeTo(name, maxName)))
	}
	slices.SortFunc(names, func(a, b string) int {
		if order := m.busy[a].since.Compare(m.busy[b].since); order != 0 {
			return order
		}
		return strings.Compare(a, b)
	})
	room = max(room, 1)
	var lines []string
	for i, name := range names {
		if i == room-1 && len(names) > room {
			return append(lines, fmt.Sprintf("  and %d more at work", len(names)-i))
		}
		w, shown := m.busy[name], EscapeTo(name, maxName)
		pad := strings.Repeat(" ", width-ansi.StringWidth(shown))
		lines = append(lines, fmt.Sprintf("  %s%s  %-12s %6s", shown, pad, w.step, FormatDuration(now.Sub(w.since))))
	}
	return lines
}
