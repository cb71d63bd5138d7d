package provision

import (
	"bytes"
	"crypto/sha256"
	"slices"

	"choria-provision/discovery"
	"choria-provision/provision/workers"
)

// prepare reads the records of many nodes in one pass, and lets each host that
// shares the records begin with other nodes: every host works through all of
// them in an order of its own and skips those that another one has, so that they
// meet at the end only.
func (r *Runner) prepare(seen []discovery.Sighting) []discovery.Sighting {
	identities := make([]string, len(seen))
	for i, s := range seen {
		identities[i] = s.Identity
	}
	_ = r.Store.Prefetch(identities) // what fails here is named when a record is read alone
	return ranked(r.Store.Host(), seen)
}

// pool returns the pool for a number of nodes. A node is claimed before its first
// call, so a host that shares them must not begin those that its workers cannot
// take soon.
func (r *Runner) pool(nodes int) *workers.Pool {
	pool := workers.New(r.Config.Workers)
	if r.Store.Host() != "" {
		pool.Share(nodes)
	}
	return pool
}

// ranked returns the nodes in the order of a host; without a name they stay in
// their own.
func ranked(host string, seen []discovery.Sighting) []discovery.Sighting {
	if host == "" {
		return seen
	}
	ranks := make(map[string][sha256.Size]byte, len(seen))
	for _, s := range seen {
		ranks[s.Identity] = sha256.Sum256([]byte(host + "\x00" + s.Identity))
	}
	seen = slices.Clone(seen)
	slices.SortFunc(seen, func(a, b discovery.Sighting) int {
		first, second := ranks[a.Identity], ranks[b.Identity]
		return bytes.Compare(first[:], second[:])
	})
	return seen
}
