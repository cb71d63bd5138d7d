package output

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"choria-provision/provision"
)

// group holds the nodes that have one cause in common, so that five hundred of
// them take as much room as one.
type group struct {
	key    string
	text   string // the error of the first node
	common string // the text of the cause, the same for all nodes
	hint   string
	names  []string
	steps  []string // distinct, in order of appearance
	differ bool     // the nodes' errors have different texts
}

// grouping collects groups in the order of their first node.
type grouping struct {
	groups []*group
	byKey  map[string]*group
}

func (g *grouping) add(key, text, name, step string) *group {
	if g.byKey == nil {
		g.byKey = map[string]*group{}
	}
	found := g.byKey[key]
	if found == nil {
		found = &group{key: key, text: text}
		g.byKey[key] = found
		g.groups = append(g.groups, found)
	}
	found.differ = found.differ || found.text != text
	found.names = append(found.names, name)
	if step != "" && !slices.Contains(found.steps, step) {
		found.steps = append(found.steps, step)
	}
	return found
}

// byCause groups the nodes of an outcome by cause, and nodes without a known cause
// by the text of their error.
func byCause(nodes []Node, outcome provision.Outcome) []*group {
	var g grouping
	for _, n := range nodesWith(nodes, outcome) {
		text := n.Error
		if text == "" {
			text = n.Message
		}
		key := n.Cause
		if key == "" || key == otherCause {
			key = "other: " + text
		}
		found := g.add(key, text, n.Identity, n.Step)
		found.hint = n.Hint
		if c, known := causeOf(n.Cause); known {
			found.common = c.err.Error()
		}
	}
	return largestFirst(g.groups)
}

// refusals groups refused sightings by cause. It leaves duplicates out: they are
// failed nodes as well and shown there.
func refusals(refused []Refusal) []*group {
	var g grouping
	for _, r := range refused {
		if r.Cause == duplicateCause {
			continue
		}
		found := g.add(r.Cause, r.Error, fmt.Sprintf("%s (%s)", r.Identity, plural(r.Count, "answer")), "")
		found.hint = r.Hint
	}
	return largestFirst(g.groups)
}

func notices(nodes []Node) []*group {
	var g grouping
	for _, n := range nodes {
		for _, text := range n.Notices {
			g.add(text, text, n.Identity, "")
		}
	}
	return largestFirst(g.groups)
}

func largestFirst(groups []*group) []*group {
	slices.SortStableFunc(groups, func(a, b *group) int { return len(b.names) - len(a.names) })
	return groups
}

// groups shows the largest groups of a run that is not listed whole; all says
// where the others are found.
func groups(p *Page, title string, groups []*group, tone Tone, all string) {
	if len(groups) == 0 {
		return
	}
	p.Heading(title)
	shown := groups
	if all != "" && len(groups) > fewNodes+1 {
		shown = groups[:fewNodes]
	}
	for _, g := range shown {
		p.Item(1, tone, g.headline(p.width == 0))
		if g.hint != "" {
			p.Item(2, Plain, g.hint)
		}
	}
	if rest := groups[len(shown):]; len(rest) > 0 {
		nodes := 0
		for _, g := range rest {
			nodes += len(g.names)
		}
		p.Item(1, tone, fmt.Sprintf("%d more nodes with %d other errors: %s", nodes, len(rest), all))
	}
	p.Blank()
}

// headline returns the group on one line: 3 × web1, web2, web3 at configure: text.
// uncut means that the table above has the errors in full length.
func (g *group) headline(uncut bool) string {
	text := g.text
	switch {
	case g.differ && g.common != "" && uncut && len(g.names) <= fewNodes: // the rows have the errors
		text = g.common
	case g.differ && g.common != "":
		text = g.common + ", such as: " + text
	}
	nodes := someNames(g.names)
	if len(g.names) > 1 {
		nodes = fmt.Sprintf("%d × %s", len(g.names), nodes)
	}
	if len(g.steps) > 0 {
		nodes += " at " + strings.Join(g.steps, ", ")
	}
	return nodes + ": " + text
}

func someNames(names []string) string {
	if len(names) <= fewNames+1 {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:fewNames], ", "), len(names)-fewNames)
}

// plans shows the plans of a dry run, nodes with the same plan together.
func plans(p *Page, nodes []Node) {
	var g grouping
	byKey := map[string]*Plan{}
	for _, n := range nodes {
		if n.Plan != nil {
			key := fmt.Sprint(n.Outcome, *n.Plan)
			byKey[key] = n.Plan
			g.add(key, "", n.Identity, "")
		}
	}
	for _, found := range largestFirst(g.groups) {
		p.Heading(fmt.Sprintf("Plan for %s: %s", plural(len(found.names), "node"), someNames(found.names)))
		plan(p, byKey[found.key])
		p.Blank()
	}
}

func plan(p *Page, plan *Plan) {
	var steps Table
	steps.Columns = []Column{{Title: "  STEP"}, {Title: "NOTE", Flex: true}}
	for _, s := range plan.Steps {
		steps.Rows = append(steps.Rows, Cells("  "+s.Step, s.Note))
	}
	p.Table(steps)
	if len(plan.Unchecked) > 0 {
		p.Item(1, Dim, "Not checked: "+strings.Join(plan.Unchecked, ", "))
	}
	if len(plan.Configuration) > 0 {
		p.Item(1, Plain, "Configuration that would be sent:")
		for _, key := range sortedKeys(plan.Configuration) {
			p.Item(2, Plain, key+" = "+plan.Configuration[key])
		}
	}
}

func sortedKeys(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }
