// Package installstate keeps what this site knows of its installations: a
// record per node, which process works on a node, and the few values that
// outlive a run (pause, counters, last report, revision of the election). It
// does not know how a node is provisioned, nor anything of Choria.
//
// A record names no finished step: every step of an installation decides from
// the node itself what is left to do, so a record cannot become false. That is
// also why beginning an installation need not survive a power cut, only a kill:
// if the record is lost the node is fresh again, and every step asks the node.
// Completion, reset and removal are durable before they return, because they
// end an installation: without them a node in service would look unfinished,
// or a node that was reset would look provisioned.
//
// The state is kept by an engine. The embedded one is a SQLite database in the
// state directory. Every change is a compare-and-set on a row's revision, which
// makes claiming a node, reading its record and admitting it one transaction.
package installstate

import (
	"errors"
	"fmt"
	"sync"
	"time"
)

// DefaultDirectory is the state directory of a system-wide installation.
const DefaultDirectory = "/var/lib/choria-provision"

// Store holds the state of one site. It is safe for concurrent use. Methods
// that change a record are for callers that hold the claim on its node.
type Store struct {
	dir    string
	host   string // see Host
	engine engine
	pause  pauseFlag

	acquiring sync.Mutex // keeps the choice of a session and its use together
	claims    sync.Map   // *Claim by identity: those held through this Store

	prefetched prefetched
}

// NewStore returns the store in dir, kept by the embedded engine. The directory
// need not exist: nothing is created before the first claim or write.
func NewStore(dir string) *Store {
	return &Store{dir: dir, engine: &sqlite{dir: dir}, pause: pauseFlag{age: pauseAge}}
}

// DefaultStore returns the store in DefaultDirectory.
func DefaultStore() *Store { return NewStore(DefaultDirectory) }

// Host returns the name of this host beside the others that share the state;
// empty when it is not shared.
func (s *Store) Host() string { return s.host }

// Dir returns the state directory.
func (s *Store) Dir() string { return s.dir }

// Close ends this process's session, which frees its claims, and closes the
// engine. A process that ends without Close frees them too.
func (s *Store) Close() error { return s.engine.close() }

// CheckWritable finds out by a durable write whether the state takes writes, and
// starts the session, without which no node can be claimed. It creates what is
// missing. The error is ErrUnavailable, ErrDamaged or ErrOldState.
func (s *Store) CheckWritable() error {
	s.acquiring.Lock()
	_, err := s.engine.session(s.idle()) // one that was lost is replaced
	s.acquiring.Unlock()
	if err != nil {
		return err
	}
	return s.setValue("checked", []byte(time.Now().UTC().Format(time.RFC3339Nano)))
}

// row is what an engine keeps of one node.
type row struct {
	record   []byte // JSON; nil: there is none
	session  string // session that holds the claim; empty: free
	pending  bool   // the record is missing, unusable or not Complete
	revision uint64 // of the last write; 0: there is no row
}

// value is a named value of an engine.
type value struct {
	data     []byte // nil: there is none
	revision uint64
	host     string // whose it is; empty: this host's, or one that all share
}

// errConflict is a compare-and-set on a revision that is not the row's any more.
var errConflict = errors.New("another process changed it")

// engine keeps rows, values and sessions. Every write is a compare-and-set: it
// happens only while the stored revision is the given one, else it returns
// errConflict. Errors of the engine are ErrUnavailable, ErrDamaged or
// ErrOldState.
type engine interface {
	// read returns the row of a node, the zero row when there is none.
	read(identity string) (row, error)
	// write stores next in place of the row with its revision and returns the
	// new revision. A row without record and session is removed. A durable
	// write is on disk, or replicated, before write returns; another one
	// survives the end of the process.
	write(identity string, next row, durable bool) (revision uint64, err error)
	// each visits every row, or only pending ones, ordered by identity.
	each(pendingOnly bool, visit func(identity string, r row) error) error
	// value returns the named value, the zero value when there is none.
	value(name string) (value, error)
	// values returns the named value of each host that has one, ordered by host.
	values(name string) ([]value, error)
	// setValue durably stores next in place of the value with its revision; nil
	// data removes it.
	setValue(name string, next value) error
	// session returns the id of this process's session and starts it first. One
	// that was lost is replaced if idle, that is while no claim is held.
	session(idle bool) (string, error)
	// holder returns the process behind a session, and whether it is alive. With
	// prove a dead session can never act again, which may take a write.
	holder(session string, prove bool) (h Holder, alive bool, err error)
	// prefetch returns all rows if that is quicker than to read as many as given
	// one by one, else nil.
	prefetch(count int) (map[string]row, error)
	// deadline is the time after which this process may act under its claims no
	// more; zero: as long as it lives.
	deadline() time.Time
	close() error
}

// Load returns the node's record. Without one the error is ErrNotFound; a record
// that cannot be understood, or names another identity, is ErrUnusable and stays
// as it is; the state as a whole may be ErrUnavailable, ErrDamaged or
// ErrOldState. Load needs no claim.
func (s *Store) Load(identity string) (Record, error) {
	r, _, err := s.read(identity, false)
	if err != nil {
		return Record{}, err
	}
	return r.decode(identity)
}

// read returns the node's row. That of a claimed node cannot have changed since
// this process wrote it. A guess was prefetched and may be outdated; one to begin
// a change with is taken once and may be of any age.
func (s *Store) read(identity string, change bool) (r row, guess bool, err error) {
	prefetched, guess := s.prefetched.get(identity, change)
	if written := s.claimOn(identity).written(); written != nil {
		return *written, false, nil
	}
	if guess {
		return prefetched, true, nil
	}
	r, err = s.engine.read(identity)
	return r, false, err
}

func (r row) decode(identity string) (Record, error) {
	if r.record == nil {
		return Record{}, fmt.Errorf("%s: %w", quote(identity), ErrNotFound)
	}
	record, err := decode(r.record)
	if err == nil && record.Identity != identity {
		err = fmt.Errorf("it names the identity %q", record.Identity)
	}
	if err != nil {
		return Record{}, unusable(identity, err)
	}
	return record, nil
}

// maxConflicts bounds how often a change of a row is tried that other processes
// change at the same time.
const maxConflicts = 100

// change applies edit to the node's row. A row that another process changed in
// between is edited again, unless this process holds the claim: then the claim
// is lost.
func (s *Store) change(identity string, durable bool, edit func(row) (row, error)) error {
	claim := s.claimOn(identity)
	for range maxConflicts {
		current, guess, err := s.read(identity, true)
		if err != nil {
			return err
		}
		next, err := edit(current)
		switch {
		case err != nil && guess: // another attempt costs no more than the read that was spared
			continue
		case err != nil:
			return err
		}
		next.revision, err = s.engine.write(identity, next, durable)
		switch {
		case err == nil:
			claim.wrote(next)
			return nil
		case !errors.Is(err, errConflict):
			return err
		case claim.written() != nil:
			return fmt.Errorf("%s: %w to another session", quote(identity), ErrClaimLost)
		}
	}
	return fmt.Errorf("%s: %w: %w", quote(identity), ErrUnavailable, errConflict)
}

// Save stores the record of an installation in progress, or of a reset. It
// survives the end of the process; a reset is durable before Save returns. After
// an error the record from before is still stored.
//
// A stored record is never lost to a mistake: one that cannot be used gives
// ErrUnusable, one of another installation ErrOtherInstallation (unless r was
// made by its Successor), one that is Resetting ErrResetting. A Complete r is
// refused: only MarkComplete completes.
func (s *Store) Save(r Record) error {
	if r.Phase == Complete {
		return errors.New("saving a record as complete: only MarkComplete does that")
	}
	return s.put(r, func(stored *Record) error {
		switch {
		case stored == nil:
			return nil
		case stored.Phase == Resetting && r.Phase != Resetting:
			return unfinishedReset(*stored)
		case stored.Phase == Complete && r.Phase == Installing && stored.InstallationID == r.InstallationID:
			return otherInstallation(*stored, "it is complete, and a new installation needs a successor")
		case stored.InstallationID != r.InstallationID && stored.InstallationID != r.PreviousID:
			return otherInstallation(*stored, "another installation was recorded meanwhile")
		}
		return nil
	})
}

// MarkComplete is the only completion signal: it stores r as Complete, with its
// HoldUntil, durably before it returns. The stored record must be r's own and
// Installing; without one the error is ErrNotFound, else those of Save.
func (s *Store) MarkComplete(r Record) error {
	r.Phase, r.Completed = Complete, time.Now().UTC().Round(0)
	r.RestartRequested, r.ShutDown = time.Time{}, time.Time{}
	return s.put(r, func(stored *Record) error {
		switch {
		case stored == nil:
			return fmt.Errorf("%s: %w", quote(r.Identity), ErrNotFound)
		case stored.Phase == Resetting:
			return unfinishedReset(*stored)
		case stored.InstallationID != r.InstallationID:
			return otherInstallation(*stored, "it is of another attempt")
		}
		return nil
	})
}

// put stores r if allowed accepts the stored record, which is nil without one.
func (s *Store) put(r Record, allowed func(stored *Record) error) error {
	r.Updated = time.Now().UTC().Round(0)
	data, err := r.encode()
	if err != nil {
		return err
	}
	return s.change(r.Identity, r.Phase != Installing, func(current row) (row, error) {
		stored, err := current.decode(r.Identity)
		switch {
		case errors.Is(err, ErrNotFound):
			err = allowed(nil)
		case err == nil:
			err = allowed(&stored)
		}
		current.record, current.pending = data, r.Phase != Complete
		return current, err
	})
}

// BeginReset turns the node's record to Resetting, durably, so that an
// interrupted reset is seen as one. Without a record the error is ErrNotFound.
// A record that cannot be used stays as it is and is no error: until Remove it
// keeps the node refused as well as a Resetting one.
func (s *Store) BeginReset(identity string) error {
	record, err := s.Load(identity)
	switch {
	case errors.Is(err, ErrUnusable):
		return nil
	case err != nil:
		return err
	case record.Phase == Resetting:
		return nil
	}
	record.Phase = Resetting
	return s.Save(record)
}

// Remove forgets the node's record, also one that cannot be used, durably before
// it returns; after an error the record is still stored. Without a record the
// error is ErrNotFound.
func (s *Store) Remove(identity string) error {
	return s.change(identity, true, func(current row) (row, error) {
		if current.record == nil {
			return row{}, fmt.Errorf("%s: %w", quote(identity), ErrNotFound)
		}
		current.record, current.pending = nil, true
		return current, nil
	})
}
