package commands

import (
	"errors"
	"fmt"
	"time"

	"choria-provision/output"
	"choria-provision/provision"
	"choria-provision/provision/installstate"
)

// hostReport is the report of the last run on one host.
type hostReport struct {
	host string // empty when the records are not shared
	doc  output.Document
}

// lastReports returns the report of the last run of each host. Those that cannot
// be read are left out and named by the error.
func lastReports(store *installstate.Store) (reports []hostReport, err error) {
	stored, err := store.LastReports()
	for _, s := range stored {
		doc, unreadable := output.ReadReport(s.Report)
		switch {
		case unreadable == nil:
			reports = append(reports, hostReport{output.Escape(s.Host), doc})
		case s.Host != "":
			err = errors.Join(err, fmt.Errorf("%s: %w", s.Host, unreadable))
		default:
			err = errors.Join(err, unreadable)
		}
	}
	return reports, err
}

// lastSeen is what the last run that worked on a node says of it.
type lastSeen struct {
	node output.Node
	end  time.Time // when that run was done with it
}

// lastNodes joins reports. A run that skipped a node knows less of it than one
// that worked on it, however long ago.
func lastNodes(reports []hostReport) map[string]lastSeen {
	last := map[string]lastSeen{}
	for _, r := range reports {
		for _, node := range append(r.doc.Nodes, r.doc.Unresolved...) {
			seen := lastSeen{node, nodeEnd(node, r.doc.Run)}
			if before, known := last[node.Identity]; !known || seen.outweighs(before) {
				last[node.Identity] = seen
			}
		}
	}
	return last
}

func (s lastSeen) outweighs(other lastSeen) bool {
	if ours, theirs := s.skipped(), other.skipped(); ours != theirs {
		return theirs
	}
	return !s.end.Before(other.end)
}

// skipped is false for a node of another installation: no run works on that.
func (s lastSeen) skipped() bool {
	return s.node.Outcome == string(provision.Skipped) && s.node.Cause != causeOwned
}

// nodeEnd is when the run was done with the node; nodes of earlier runs have
// times of their own.
func nodeEnd(node output.Node, run output.Run) time.Time {
	if node.Started == nil {
		return run.Started.Add(output.FromSeconds(run.Duration))
	}
	return node.Started.Add(output.FromSeconds(node.Duration))
}

// failedLastRun returns a function that reports whether a node failed in the last
// run. A report that cannot be read only costs the order of nodes.
func failedLastRun(store *installstate.Store) func(string) bool {
	reports, _ := lastReports(store)
	last := lastNodes(reports)
	return func(identity string) bool { return last[identity].node.Outcome == string(provision.Failed) }
}
