package output

import (
	"fmt"
	"slices"
	"strings"

	"choria-provision/provision"
)

// The sizes of a summary. The table lists every node of a run with at most
// fullTable nodes; of a larger run it lists outcomes with at most fewNodes nodes.
// A group names fewNames of its nodes.
const (
	fullTable = 50
	fewNodes  = 10
	fewNames  = 3
)

// tableOrder is the order of outcomes in a summary: those that need attention first.
var tableOrder = []provision.Outcome{
	provision.Failed, provision.Deferred, provision.Shutdown, provision.Skipped,
	provision.Planned, provision.Upgraded, provision.Provisioned,
}

// outcomeTone returns the tone of an outcome.
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

// ordinary are the causes of skips that a timer does not report: they end within
// minutes, or status shows them.
var ordinary = []string{"held", "locked", "busy", "resetting"}

// NothingToDo reports whether a run had no node to work on and has no problem to
// show. The run of a timer then writes nothing.
func NothingToDo(doc Document) bool {
	return doc.Run.ExitCode == 0 && len(doc.Discovery.Refused) == 0 && doc.Totals.Unhandled == 0 &&
		!slices.ContainsFunc(doc.Nodes, func(n Node) bool { return !isOrdinarySkip(n) })
}

func isOrdinarySkip(n Node) bool {
	return n.Outcome == string(provision.Skipped) && slices.Contains(ordinary, n.Cause) && len(n.Notices) == 0
}

// Summary shows a finished run: its nodes, failures by cause with a hint each, and
// the totals.
func Summary(p *Page, doc Document) {
	failed, skipped := byCause(doc.Nodes, provision.Failed), byCause(doc.Nodes, provision.Skipped)
	if len(doc.Nodes) > 0 {
		nodeTable(p, doc, shownInGroups(failed, skipped))
		p.Blank()
	}
	plans(p, doc.Nodes)
	recorded, others := listedBy(doc)
	groups(p, "Failed", failed, Bad, recorded)
	if len(doc.Nodes) > fullTable { // otherwise their rows have everything
		groups(p, "Deferred", byCause(doc.Nodes, provision.Deferred), Warn, recorded)
		groups(p, "Shut down", byCause(doc.Nodes, provision.Shutdown), Warn, recorded)
	}
	groups(p, "Skipped", skipped, Dim, others)
	groups(p, "Refused", refusals(doc.Discovery.Refused), Warn, others)
	groups(p, "Warnings", notices(doc.Nodes), Warn, others)
	totals(p, doc)
}

// listedBy returns what lists the nodes that `status` knows of, and all others, of
// a run that a summary does not list whole. A dry run leaves nothing for status.
func listedBy(doc Document) (recorded, others string) {
	const all = "`--output json` lists them"
	switch {
	case len(doc.Nodes) <= fullTable:
		return "", ""
	case doc.Run.DryRun:
		return all, all
	default:
		return "`provision status` lists them", all
	}
}

// shownInGroups returns the nodes whose errors a group shows in full, so that their
// rows leave them out. Where the errors of a group differ, the rows have them and
// the group has the cause.
func shownInGroups(all ...[]*group) map[string]bool {
	shown := map[string]bool{}
	for _, g := range slices.Concat(all...) {
		for _, name := range g.names {
			shown[name] = !g.differ
		}
	}
	return shown
}

func nodeTable(p *Page, doc Document, shown map[string]bool) {
	table := Table{Columns: []Column{{Title: "NODE"}, {Title: "OUTCOME"}, {Title: "STEP"}, {Title: "TIME", Right: true}, {Title: "DETAIL", Flex: true}}}
	var unlisted []string
	status := ""
	for _, outcome := range tableOrder {
		nodes := nodesWith(doc.Nodes, outcome)
		if len(doc.Nodes) > fullTable && len(nodes) > fewNodes {
			unlisted = append(unlisted, fmt.Sprintf("%d %s", len(nodes), outcome))
			if outcome == provision.Failed && !doc.Run.DryRun {
				status = "`provision status` lists what failed; "
			}
			continue
		}
		for _, n := range nodes {
			text := detail(n)
			if shown[n.Identity] {
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
		p.Text(Dim, "Not listed: "+strings.Join(unlisted, ", ")+". "+status+"`--output json` and "+LastRunFile+" list every node.")
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

// took returns the duration of a node, empty for one that was not worked on.
func took(n Node) string {
	if n.Duration == 0 {
		return ""
	}
	return FormatDuration(FromSeconds(n.Duration))
}

// detail returns the most important text of a node: error, message or version.
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

// outcomeCounts returns texts such as "3 provisioned", without outcomes at zero.
func outcomeCounts(outcomes map[string]int) []string {
	var parts []string
	for _, outcome := range provision.Outcomes {
		if n := outcomes[string(outcome)]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, outcome))
		}
	}
	return parts
}
