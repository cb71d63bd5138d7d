package output

import (
	"slices"
	"time"

	"choria-provision/provision"
)

// The bounds of what a report keeps of earlier runs, in number and in age:
// without them a node that failed and then left the fleet would stay forever.
const (
	maxUnresolved    = 10_000
	maxUnresolvedAge = 7 * 24 * time.Hour
)

// KeepUnresolved adds the nodes that the report of the run before has as failed
// or deferred, its own or those of earlier runs, unless this run worked on them.
// done reports whether a node was provisioned since.
func (d *Document) KeepUnresolved(last Document, done func(identity string) bool) {
	settled := make(map[string]bool, len(d.Nodes))
	for _, n := range d.Nodes {
		settled[n.Identity] = n.Outcome != string(provision.Skipped)
	}
	for _, n := range append(last.Nodes, last.Unresolved...) {
		if len(d.Unresolved) == maxUnresolved {
			return
		}
		if needsAttention(n) && n.Started != nil && d.Run.Started.Sub(*n.Started) < maxUnresolvedAge && !settled[n.Identity] && !done(n.Identity) {
			settled[n.Identity] = true // of several reports of one node the newest comes first
			d.Unresolved = append(d.Unresolved, n)
		}
	}
}

func needsAttention(n Node) bool {
	return n.Outcome == string(provision.Failed) || n.Outcome == string(provision.Deferred)
}

// Forget removes a node from the lists of nodes and reports whether it was in
// one. The totals keep it: they describe the run.
func (d *Document) Forget(identity string) bool {
	before := len(d.Nodes) + len(d.Unresolved)
	matches := func(n Node) bool { return n.Identity == EscapeTo(identity, maxName) }
	d.Nodes, d.Unresolved = slices.DeleteFunc(d.Nodes, matches), slices.DeleteFunc(d.Unresolved, matches)
	return len(d.Nodes)+len(d.Unresolved) < before
}
