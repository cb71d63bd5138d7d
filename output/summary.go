package output

import (
	"fmt"
	"slices"
	"strings"

	"choria-provision/provision"
)

// The sizes of a summary: a run of at most fullTable nodes is listed whole, of
// a larger one only the outcomes that few nodes had; a group names fewNames of
// its nodes.
const (
	fullTable = 50
	fewNodes  = 10
	fewNames  = 3
)

// tableOrder is how a summary sorts nodes: what needs attention stands first.
var tableOrder = []provision.Outcome{
	provision.Failed, provision.Deferred, provision.Shutdown, provision.Skipped,
	provision.Planned, provision.Upgraded, provision.Provisioned,
}

// outcomeTone is how an outcome looks.
func outcomeTone(outcome string) Tone {
	switch provision.Outcome(outcome) {
	case provision.Provisioned, provision.Upgraded:
		return Good
	case provision.Deferred, provision.Shutdown:
		return Warn
	case provision.Failed:
		return Bad
	case provision.Planned:
		return Strong
	case provision.Skipped:
		return Dim
	default:
		return Plain
	}
}

// ordinary are the causes of a skip that are no news to a timer: they end within
// minutes, or `status` shows them.
var ordinary = []string{"held", "locked", "busy", "resetting"}

// NothingToDo says that a run found nobody to work on and has nothing to tell:
// a timer's run stays silent then.
func NothingToDo(doc Document) bool {
	return doc.Run.ExitCode == 0 && len(doc.Discovery.Refused) == 0 && doc.Totals.Unhandled == 0 &&
		!slices.ContainsFunc(doc.Nodes, func(n Node) bool { return !isOrdinarySkip(n) })
}

func isOrdinarySkip(n Node) bool {
	return n.Outcome == string(provision.Skipped) && slices.Contains(ordinary, n.Cause) && len(n.Notices) == 0
}

// Summary shows a run that is over: its nodes, what went wrong by cause with
// the hint that fits, and the totals.
func Summary(p *Page, doc Document) {
	failed, skipped := troubles(doc.Nodes, provision.Failed), troubles(doc.Nodes, provision.Skipped)
	if len(doc.Nodes) > 0 {
		nodeTable(p, doc, toldBelow(failed, skipped))
		p.Blank()
	}
	plans(p, doc.Nodes)
	groups(p, "Failed", failed, Bad)
	if len(doc.Nodes) > fullTable { // else their rows say it all
		groups(p, "Deferred", troubles(doc.Nodes, provision.Deferred), Warn)
		groups(p, "Shut down", troubles(doc.Nodes, provision.Shutdown), Warn)
	}
	groups(p, "Skipped", skipped, Dim)
	groups(p, "Refused", refusals(doc.Discovery.Refused), Warn)
	groups(p, "Warnings", notices(doc.Nodes), Warn)
	totals(p, doc)
}

// toldBelow returns the nodes whose errors the groups have in full: their rows
// leave them out. Where the words of a group's nodes differ the rows have them,
// and the group has what is common.
func toldBelow(all ...[]*group) map[string]bool {
	told := map[string]bool{}
	for _, g := range slices.Concat(all...) {
		for _, name := range g.names {
			told[name] = !g.differ
		}
	}
	return told
}

func nodeTable(p *Page, doc Document, told map[string]bool) {
	table := Table{Columns: []Column{{Title: "NODE"}, {Title: "OUTCOME"}, {Title: "STEP"}, {Title: "TIME", Right: true}, {Title: "DETAIL", Flex: true}}}
	var unlisted []string
	for _, outcome := range tableOrder {
		nodes := nodesWith(doc.Nodes, outcome)
		if len(doc.Nodes) > fullTable && len(nodes) > fewNodes {
			unlisted = append(unlisted, fmt.Sprintf("%d %s", len(nodes), outcome))
			continue
		}
		for _, n := range nodes {
			text := detail(n)
			if told[n.Identity] {
				text = ""
			}
			table.Rows = append(table.Rows, []Cell{
				{Text: n.Identity}, {n.Outcome, outcomeTone(n.Outcome)}, {Text: n.Step},
				{Text: took(n)}, {Text: text},
			})
		}
	}
	if len(table.Rows) > 0 {
		p.Table(table)
	}
	if len(unlisted) > 0 {
		p.Text(Dim, "Not listed: "+strings.Join(unlisted, ", ")+". `--output json` and "+LastRunFile+" list every node.")
	}
}

func nodesWith(nodes []Node, outcome provision.Outcome) []Node {
	var found []Node
	for _, n := range nodes {
		if n.Outcome == string(outcome) {
			found = append(found, n)
		}
	}
	slices.SortStableFunc(found, func(a, b Node) int { return strings.Compare(a.Identity, b.Identity) })
	return found
}

// took is empty for a node that nobody worked on.
func took(n Node) string {
	if n.Duration == 0 {
		return ""
	}
	return FormatDuration(FromSeconds(n.Duration))
}

// detail is what is to be said of a node beyond outcome and step.
func detail(n Node) string {
	switch {
	case n.Error != "":
		return n.Error
	case n.Message != "":
		return n.Message
	case n.Upgrade != "":
		return n.Version + " → " + n.Upgrade
	case n.Version != "":
		return "version " + n.Version
	default:
		return ""
	}
}

func totals(p *Page, doc Document) {
	if len(doc.Nodes) == 0 && doc.Totals.Unhandled == 0 {
		if doc.Run.Error == "" && len(doc.Discovery.Refused) == 0 {
			p.Text(Plain, "Nobody waits to be provisioned.")
		}
		return
	}
	parts := outcomeCounts(doc.Totals.Outcomes)
	if doc.Totals.Unhandled > 0 {
		parts = append(parts, fmt.Sprintf("%d not handled", doc.Totals.Unhandled))
	}
	if doc.Totals.Left > 0 {
		parts = append(parts, fmt.Sprintf("%d beyond the limit", doc.Totals.Left))
	}
	count := doc.Totals.Nodes + doc.Totals.Unhandled + doc.Totals.Left
	text := fmt.Sprintf("%s in %s: %s", plural(count, "node"), FormatDuration(FromSeconds(doc.Run.Duration)), strings.Join(parts, ", "))
	if doc.Run.DryRun {
		text = "Dry run, nothing was changed. " + text
	}
	p.Text(Strong, text)
}

// outcomeCounts is "3 provisioned", "1 failed", without those at zero.
func outcomeCounts(outcomes map[string]int) []string {
	var parts []string
	for _, outcome := range provision.Outcomes {
		if n := outcomes[string(outcome)]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, outcome))
		}
	}
	return parts
}
