package commands

import (
	"encoding/json"
	"os"
	"path/filepath"

	"choria-provision/internal/network"

	"github.com/google/renameio/v2"
)

// leaseFile remembers the revision of the election key that this host wrote
// last: the next run here need not wait for a lease to expire that was its own.
const leaseFile = "lease.json"

type leaseNote struct {
	Revision uint64 `json:"revision"`
}

func (c *cycle) leaseOptions() network.LeaseOptions {
	path := filepath.Join(c.cfg.StateDir, leaseFile)
	var note leaseNote
	if data, err := os.ReadFile(path); err == nil {
		_ = json.Unmarshal(data, &note) // a broken note costs a wait, no more
	}
	keep := func(revision uint64) {
		data, err := json.Marshal(leaseNote{revision})
		if err == nil {
			_ = renameio.WriteFile(path, data, 0o600) // likewise
		}
	}
	lost := func(err error) { c.seen.logger.Warnf("%v; nodes at work stop at their next call", err) }
	return network.LeaseOptions{Name: c.conn.Framework().Configuration().Identity, Revision: note.Revision, Keep: keep, Lost: lost}
}
