package commands

import "choria-provision/internal/network"

// leaseOptions lets the next run here take over, without a wait for its end, a
// lease that this host held last.
func (c *cycle) leaseOptions() network.LeaseOptions {
	keep := func(revision uint64) { _ = c.store.SaveElectionRevision(revision) } // without it the next run waits
	lost := func(err error) { c.seen.logger.Warnf("%v; nodes at work stop at their next call", err) }
	return network.LeaseOptions{Name: c.conn.Framework().Configuration().Identity, Revision: c.store.ElectionRevision(), Keep: keep, Lost: lost}
}
