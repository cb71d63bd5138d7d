package output

import "choria-provision/provision"

// maxEarlier bounds what is carried from report to report.
const maxEarlier = 10_000

// CarryOver takes from the report of the run before what this one would make
// forgotten: nodes that failed or were put off then and were not worked on now.
// done tells the ones that came into service since.
func (d *Document) CarryOver(last Document, done func(identity string) bool) {
	worked := make(map[string]bool, len(d.Nodes))
	for _, n := range d.Nodes {
		worked[n.Identity] = n.Outcome != string(provision.Skipped)
	}
	for _, n := range append(last.Nodes, last.Earlier...) {
		if len(d.Earlier) == maxEarlier {
			return
		}
		if needsAttention(n) && !worked[n.Identity] && !done(n.Identity) {
			worked[n.Identity] = true // the newest of several counts
			d.Earlier = append(d.Earlier, n)
		}
	}
}

func needsAttention(n Node) bool {
	return n.Outcome == string(provision.Failed) || n.Outcome == string(provision.Deferred)
}
