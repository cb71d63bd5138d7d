package crash

import (
	"encoding/hex"
	"encoding/json"
	"io/fs"
	"path/filepath"
	"slices"

	"choria-provision/provision/installstate"

	wire "github.com/choria-io/go-choria/providers/agent/mcorpc/golang/provision"
	"github.com/choria-io/tokens"
	"github.com/google/go-cmp/cmp"
)

// holdAlways is what must be true after every run, a killed one too: records
// are whole, none is lost, invented, or goes back, and every lock is free.
func (s *story) holdAlways() {
	entries, err := s.store.List()
	if err != nil {
		s.errorf("%v", err)
		return
	}
	found := map[string]installstate.Record{}
	for _, entry := range entries {
		if entry.Err != nil || entry.Locked {
			s.errorf("got %+v, want a whole record and a free lock", entry)
			return
		}
		found[entry.Identity] = entry.Record
	}
	if _, running, err := s.store.RunHolder(); running || err != nil {
		s.errorf("the run lock is not free: %v, %v", running, err)
	}
	for name, before := range s.records {
		switch now := found[name]; {
		case now.InstallationID != before.InstallationID || now.PreviousID != "":
			s.errorf("%s: got installation %+v after %+v, want the same one", name, now, before)
		case before.Phase == installstate.Complete && now.Phase != installstate.Complete:
			s.errorf("%s: got %s after complete", name, now.Phase)
		}
	}
	for name, record := range found {
		switch n := s.fleet.nodes[name]; {
		case n == nil || record.Fingerprint != fingerprint(s.order.Enrollment):
			s.errorf("got a record nobody made: %+v", record)
		case record.Phase == installstate.Complete && n.restarted == 0:
			s.errorf("%s is complete and was never restarted", name)
		}
	}
	s.records = found
}

// holdEnd is what must be true when nothing is left to do: each node was
// provisioned exactly once in effect, and nothing else is left behind.
func (s *story) holdEnd() {
	for _, name := range names {
		n := s.fleet.nodes[name]
		if n.restarted != 1 {
			s.errorf("%s: got %d restarts, want one", name, n.restarted)
			return
		}
		if at := lastOf(n.answered, "restart"); lastOf(n.answered, changes...) != at {
			s.errorf("%s: got a change after the restart", name)
		}
		if lastOf(n.answered, "configure") < lastOf(n.answered, "jwt", "gen25519", "gencsr") {
			s.errorf("%s: its configuration is older than its keys", name)
		}
		s.holdBinding(name, n)
	}
	s.holdFiles()
}

// changes are the actions after which a node is not what it was.
var changes = []string{"gen25519", "gencsr", "jwt", "release_update", "configure", "restart"}

// lastOf is the position of the last of some actions, -1 for none.
func lastOf(list []exchange, actions ...string) int {
	for i := len(list) - 1; i >= 0; i-- {
		if slices.Contains(actions, list[i].action) {
			return i
		}
	}
	return -1
}

// holdBinding wants the server JWT a node starts with to be for the key it has.
func (s *story) holdBinding(name string, n *state) {
	if s.order.Enrollment != "issuer" {
		return
	}
	var reply wire.ED25519Reply
	var request wire.ConfigureRequest
	last := n.answered[lastOf(n.answered, "gen25519")]
	if err := json.Unmarshal(last.reply.Data, &reply); err != nil {
		s.errorf("%s: %v", name, err)
		return
	}
	if err := json.Unmarshal(n.answered[lastOf(n.answered, "configure")].call.In, &request); err != nil {
		s.errorf("%s: %v", name, err)
		return
	}
	claims, err := tokens.ParseServerTokenUnverified(request.ServerJWT)
	if err != nil {
		s.errorf("%s: %v", name, err)
		return
	}
	if _, err := hex.DecodeString(reply.PublicKey); err != nil || claims.PublicKey != reply.PublicKey {
		s.errorf("%s: its token is for key %s, it has %s", name, claims.PublicKey, reply.PublicKey)
	}
}

// holdFiles wants nothing in the state directory that a clean run does not
// leave there. It ends the use of the state.
func (s *story) holdFiles() {
	if run, err := s.store.AcquireRunLock(); err != nil { // a run removes what the one before left when it was killed at its end
		s.errorf("%v", err)
	} else {
		run.Release()
	}
	if err := s.store.Close(); err != nil {
		s.errorf("%v", err)
	}
	want := []string{"run.lock", installstate.DatabaseFile}
	if s.broker != nil {
		want = want[:1]
	}
	var got []string
	err := filepath.WalkDir(s.store.Dir(), func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			path, err = filepath.Rel(s.store.Dir(), path)
			got = append(got, path)
		}
		return err
	})
	slices.Sort(got)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		s.errorf("files (-want +got), %v:\n%s", err, diff)
	}
}
