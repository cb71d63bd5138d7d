package installstate

import (
	"errors"
	"fmt"
	"sync"
	"time"
)

// Disposition relates an installation that may proceed to the stored record. The
// zero Disposition comes with a refusal.
type Disposition int

// The dispositions of Admit.
const (
	Fresh           Disposition = iota + 1 // nothing is recorded
	Resume                                 // our own attempt, not finished
	AlreadyComplete                        // our own, finished
)

func (d Disposition) String() string {
	switch d {
	case Fresh:
		return "fresh"
	case Resume:
		return "resume"
	case AlreadyComplete:
		return "complete"
	default:
		return "refused"
	}
}

// Admit decides whether the installation that fingerprint defines may work on
// the node. It writes nothing; the caller holds the claim on the node, so that
// the answer stays true. The record is zero when Fresh.
//
// It refuses a record of another installation (ErrOtherInstallation), one that
// is being reset (ErrResetting) and one that cannot be used (ErrUnusable); each
// of these errors names the command that frees the node. Errors of the state
// itself are those of Store.Load.
func Admit(store *Store, identity, fingerprint string) (Record, Disposition, error) {
	record, err := store.Load(identity)
	switch {
	case errors.Is(err, ErrNotFound):
		return Record{}, Fresh, nil
	case err != nil:
		return Record{}, 0, err
	case record.Phase == Resetting:
		return record, 0, unfinishedReset(record)
	case record.Fingerprint != fingerprint:
		return record, 0, otherInstallation(record,
			fmt.Sprintf("its site, enrollment model or trust root was another (fingerprint %s, ours is %s)", short(record.Fingerprint), short(fingerprint)))
	case record.Phase == Installing:
		return record, Resume, nil
	default:
		return record, AlreadyComplete, nil
	}
}

func short(fingerprint string) string { return fingerprint[:min(12, len(fingerprint))] }

// Entry is one node in the store.
type Entry struct {
	Identity string
	Record   Record // zero without record, or when Err is set
	Err      error  // ErrUnusable; nil when the record is fine or there is none
	Locked   bool   // a living process works on it now
	Holder   Holder // the process, when Locked
}

// HasRecord reports whether there is a record, usable or not.
func (e Entry) HasRecord() bool { return e.Err != nil || e.Record.SchemaVersion != 0 }

// List returns every node that has a record or is being worked on, ordered by
// identity, each with its own error. It changes nothing; a store that does not
// exist is empty. The error concerns the state as a whole, see Load.
func (s *Store) List() ([]Entry, error) {
	var entries []Entry
	holders := map[string]Entry{} // by session: one process has many claims
	err := s.engine.each(false, func(identity string, r row) error {
		entry := Entry{Identity: identity}
		if r.record != nil {
			entry.Record, entry.Err = r.decode(identity)
		}
		if r.session != "" {
			h, ok := holders[r.session]
			if !ok {
				var err error
				if h.Holder, h.Locked, err = s.engine.holder(r.session, false); err != nil {
					return err
				}
				holders[r.session] = h
			}
			entry.Holder, entry.Locked = h.Holder, h.Locked
		}
		if entry.HasRecord() || entry.Locked {
			entries = append(entries, entry)
		}
		return nil
	})
	return entries, err
}

// RestartRequested returns the identities whose installation was cut off between
// the request to restart and its reply: Installing, with that time set. Records
// that cannot be used are left out, since Admit refuses their nodes anyway. The
// error is that of List.
func (s *Store) RestartRequested() ([]string, error) {
	var identities []string
	err := s.engine.each(true, func(identity string, r row) error {
		record, err := r.decode(identity)
		if err == nil && record.Phase == Installing && !record.RestartRequested.IsZero() {
			identities = append(identities, identity)
		}
		return nil
	})
	return identities, err
}

// prefetchAge is how old a prefetched row may be to answer for a node.
const prefetchAge = 5 * time.Second

// prefetched holds rows that were read in one pass.
type prefetched struct {
	mu   sync.Mutex
	at   time.Time
	rows map[string]row
}

// Prefetch reads the records of many nodes in one pass if that is quicker than
// one by one. Load and Admit of nodes without a claim then answer from it for
// 5 s; decisions under a claim never do.
func (s *Store) Prefetch(identities []string) error {
	at := time.Now()
	rows, err := s.engine.prefetch(len(identities))
	if err != nil || rows == nil {
		return err
	}
	asked := make(map[string]row, len(identities))
	for _, identity := range identities {
		asked[identity] = rows[identity]
	}
	s.prefetched.mu.Lock()
	defer s.prefetched.mu.Unlock()
	s.prefetched.at, s.prefetched.rows = at, asked
	return nil
}

// get returns the prefetched row of a node. One that is taken may be of any age
// and is there once.
func (p *prefetched) get(identity string, take bool) (row, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r, ok := p.rows[identity]
	if take {
		delete(p.rows, identity)
	}
	return r, ok && (take || time.Since(p.at) <= prefetchAge)
}
