package output

import (
	"slices"
	"time"

	"choria-provision/provision"
)

// What is carried from report to report is bounded in number and in age: a node
// that failed and was taken out of the fleet would be shown for ever.
const (
	maxEarlier    = 10_000
	maxEarlierAge = 7 * 24 * time.Hour
)

// CarryOver takes from the report of the run before the nodes that failed or were
// deferred then, or in a run before it, and that this run did not work on. done
// reports whether a node came into service since.
func (d *Document) CarryOver(last Document, done func(identity string) bool) {
	worked := make(map[string]bool, len(d.Nodes))
	for _, n := range d.Nodes {
		worked[n.Identity] = n.Outcome != string(provision.Skipped)
	}
	for _, n := range append(last.Nodes, last.Earlier...) {
		if len(d.Earlier) == maxEarlier {
			return
		}
		if needsAttention(n) && n.Started != nil && d.Run.Started.Sub(*n.Started) < maxEarlierAge && !worked[n.Identity] && !done(n.Identity) {
			worked[n.Identity] = true // the newest of several counts
			d.Earlier = append(d.Earlier, n)
		}
	}
}

func needsAttention(n Node) bool {
	return n.Outcome == string(provision.Failed) || n.Outcome == string(provision.Deferred)
}

// Forget removes a node from what the report says of single nodes, and reports
// whether it was there.
func (d *Document) Forget(identity string) bool {
	before := len(d.Nodes) + len(d.Earlier)
	named := func(n Node) bool { return n.Identity == EscapeTo(identity, maxName) }
	d.Nodes, d.Earlier = slices.DeleteFunc(d.Nodes, named), slices.DeleteFunc(d.Earlier, named)
	return len(d.Nodes)+len(d.Earlier) < before
}
