// Package installstate knows which installations this site owns: a durable
// record per node says whether one is under way, finished or being taken down,
// and kernel locks say whether a process is at work on it now. It does not know
// how a node is provisioned, nor anything of Choria.
//
// A record claims no finished step: every step of an installation decides from
// the node itself what is to do, so nothing written here can become false.
package installstate

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// DefaultDirectory is the state directory of a system-wide installation.
const DefaultDirectory = "/var/lib/choria-provision"

const (
	recordFile  = "record.json"
	removedFile = ".record.json.removed" // a record between unlinking and the flush of that
	lockFile    = "lock"
	runLockFile = "run.lock"

	maxRecordSize = 64 << 10 // a record takes less than 1 KiB, an escaped long name included
)

// Store is a state directory:
//
//	run.lock                 who runs now
//	journal                  the last records of a run, until they are flushed
//	nodes/NAME/record.json   the record, NAME is the escaped machine name
//	nodes/NAME/lock          who is at work on the node now
//
// A Store is safe for concurrent use. Methods that change a record are for
// callers that hold the node's lock.
type Store struct {
	dir   string
	disk  disk
	locks sync.Map        // *Lock by machine: those held through this Store
	held  atomic.Int64    // how many these are
	names group[struct{}] // syncs of the directory of nodes

	journal  atomic.Pointer[journal] // nil: each record is flushed by itself
	few      int                     // journalFew
	caughtUp atomic.Bool             // see catchUp
	emptied  atomic.Pointer[string]  // the epoch with which this Store emptied the journal, on the disk
}

// NewStore returns the store in dir, which need not exist yet: nothing is made
// before the first lock, Save or CheckWritable.
func NewStore(dir string) *Store { return &Store{dir: dir, disk: realDisk(), few: journalFew} }

// DefaultStore returns the store in DefaultDirectory.
func DefaultStore() *Store { return NewStore(DefaultDirectory) }

// Dir returns the state directory.
func (s *Store) Dir() string { return s.dir }

// RecordPath returns where the machine's record is or would be.
func (s *Store) RecordPath(machine string) string {
	return filepath.Join(s.nodeDir(machine), recordFile)
}

func (s *Store) nodesDir() string { return filepath.Join(s.dir, "nodes") }

func (s *Store) nodeDir(machine string) string { return filepath.Join(s.nodesDir(), escape(machine)) }

// Load returns the machine's record. Without one the error is ErrNotFound; a
// record that cannot be read or understood, or names another machine, gives
// ErrUnusable and stays as it is; ErrUnwritable says that the journal holds
// records from before the machine went down that cannot be put in place. Load
// needs no lock: who writes a record over has its file locked.
func (s *Store) Load(machine string) (Record, error) {
	if err := s.catchUp(); err != nil {
		return Record{}, err
	}
	path := s.RecordPath(machine)
	record, err := readNoted(filepath.Dir(path))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Record{}, fmt.Errorf("%s: %w", quote(machine), ErrNotFound)
	case err != nil:
		return Record{}, unusable(machine, path, err)
	case record.MachineName != machine:
		return Record{}, unusable(machine, path, fmt.Errorf("it names the machine %q", record.MachineName))
	}
	return record, nil
}

// readNoted reads the record in a node's directory, with what is noted beside it.
func readNoted(dir string) (Record, error) {
	record, err := readRecord(filepath.Join(dir, recordFile))
	if err != nil || record.Phase != Installing {
		return record, err
	}
	file, err := openFile(filepath.Join(dir, lockFile), os.O_RDONLY)
	if err != nil { // without lock no note, which is all that can be missing
		return record, nil
	}
	defer file.Close()
	record.noted(readLockText(file).Restart)
	return record, nil
}

func readRecord(path string) (Record, error) {
	file, err := openFile(path, os.O_RDONLY|unix.O_NONBLOCK) // or a pipe would wait for its other end
	if err != nil {
		return Record{}, err
	}
	defer file.Close()
	awaitWriter(file)
	data, err := io.ReadAll(io.LimitReader(file, maxRecordSize+1))
	if err != nil {
		return Record{}, err
	}
	return decode(data)
}

// Save writes the record durably: after a nil return it survives a crash of
// the machine, after an error the record from before is still in place. It
// takes records that are Installing or Resetting; MarkComplete alone completes.
//
// What is stored already is never lost to a mistake: a record that cannot be
// used gives ErrUnusable, one of another installation ErrOtherInstallation
// (unless r was made by its Successor), one that is Resetting ErrResetting. A
// disk that cannot be written gives ErrUnwritable.
func (s *Store) Save(r Record) error {
	if r.Phase == Complete {
		return errors.New("saving a record as complete: only MarkComplete does that")
	}
	return s.put(r)
}

// MarkComplete is the only completion signal: it writes r as Complete, durably
// before it returns, with r's HoldUntil. The stored record must be r's own and
// Installing; without one the error is ErrNotFound, else those of Save.
func (s *Store) MarkComplete(r Record) error {
	stored, err := s.stored(r.MachineName)
	if err != nil {
		return err
	}
	if stored.InstallationID != r.InstallationID {
		return s.otherInstallation(stored, "it is of another attempt")
	}
	r.Phase, r.Completed = Complete, time.Now().UTC().Round(0)
	return s.put(r)
}

func (s *Store) put(r Record) error {
	r.Updated = time.Now().UTC().Round(0)
	data, err := r.encode()
	if err != nil {
		return err
	}
	stored, err := s.stored(r.MachineName)
	switch {
	case errors.Is(err, ErrNotFound):
		return s.write(r, data, nil)
	case err != nil:
		return err
	case stored.Phase == Resetting && r.Phase != Resetting:
		return s.resetting(stored)
	case stored.Phase == Complete && r.Phase == Installing && stored.InstallationID == r.InstallationID:
		return s.otherInstallation(stored, "it is complete, and going on needs a successor")
	case stored.InstallationID != r.InstallationID && stored.InstallationID != r.PreviousID:
		return s.otherInstallation(stored, "another installation was recorded meanwhile")
	}
	return s.write(r, data, &stored)
}

// stored is Load, without reading what cannot have changed under our lock.
func (s *Store) stored(machine string) (Record, error) {
	if lock := s.lockOf(machine); lock.stored != nil {
		return *lock.stored, nil
	}
	return s.Load(machine)
}

// lockOf is the machine's lock when it is held through this Store; else one that
// knows of nothing.
func (s *Store) lockOf(machine string) *Lock {
	if lock, ok := s.locks.Load(machine); ok {
		return lock.(*Lock)
	}
	return &Lock{}
}

// write replaces the record. When that cannot be flushed, what was there
// before is put back, so that nobody sees as done what was reported as failed.
func (s *Store) write(r Record, data []byte, before *Record) error {
	dir, path := s.nodeDir(r.MachineName), s.RecordPath(r.MachineName)
	lock := s.lockOf(r.MachineName)
	lock.stored = nil
	if lock.file == nil { // else the lock's file is in it
		if _, err := s.makeDir(dir); err != nil {
			return unwritable(err)
		}
	}
	if err := s.writeDurably(path, data, before, lock); err != nil {
		return err
	}
	r.RestartAsked = time.Time{}
	lock.stored, lock.said.Restart = &r, nil
	return nil
}

func (s *Store) writeDurably(path string, data []byte, before *Record, lock *Lock) error {
	if journal := s.journal.Load(); journal != nil {
		if err := journal.add(path, data); err != nil {
			return unwritable(err)
		}
		return nil
	}
	if err := s.leaveJournal(); err != nil {
		return unwritable(err)
	}
	if err := s.disk.replace(path, data); err != nil {
		return unwritable(err)
	}
	if err := s.flush(filepath.Dir(path), lock); err != nil {
		return errors.Join(unwritable(err), s.restore(path, before))
	}
	return nil
}

func (s *Store) restore(path string, before *Record) error {
	var err error
	if before == nil {
		err = s.disk.remove(path)
	} else {
		err = s.replaceBy(path, *before)
	}
	if err != nil {
		return fmt.Errorf("putting back the record from before: %w", err)
	}
	return nil
}

func (s *Store) replaceBy(path string, r Record) error {
	data, err := r.encode()
	if err != nil {
		return err
	}
	return s.disk.replace(path, data)
}

// flush makes the names in a node's directory durable, and the directory's own
// name, which a process that died too early may have left unflushed.
func (s *Store) flush(dir string, lock *Lock) error {
	if err := s.disk.syncDir(dir); err != nil || lock.named {
		return err
	}
	err := s.names.do(struct{}{}, func([]struct{}) error { return s.disk.syncDir(s.nodesDir()) })
	lock.named = err == nil
	return err
}

// BeginReset turns the machine's record to Resetting, durably, so that an
// interrupted reset is seen as one. Without a record the error is ErrNotFound.
// A record that cannot be used stays as it is and is no error: it keeps the
// node refused as well as a Resetting one, until Remove.
func (s *Store) BeginReset(machine string) error {
	record, err := s.Load(machine)
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

// Remove forgets the machine's record, whatever is in it, durably before it
// returns. When the removal cannot be flushed the record is put back and the
// error is ErrUnwritable: a reset that reports failure leaves the node visibly
// owned. Without a record the error is ErrNotFound.
func (s *Store) Remove(machine string) error {
	dir, path := s.nodeDir(machine), s.RecordPath(machine)
	lock := s.lockOf(machine)
	lock.stored = nil
	if err := s.catchUp(); err != nil {
		return err
	}
	if err := s.leaveJournal(); err != nil {
		return unwritable(err)
	}
	removed := filepath.Join(dir, removedFile)
	// A rename takes the name away as an unlink does, and putting it back
	// needs no space on the disk.
	err := s.disk.rename(path, removed)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: %w", quote(machine), ErrNotFound)
	}
	if err != nil {
		return unwritable(err)
	}
	if err := s.flush(dir, lock); err != nil {
		return errors.Join(unwritable(err), s.putBack(removed, path))
	}
	if err := s.disk.remove(removed); err != nil {
		return unwritable(err)
	}
	return nil
}

func (s *Store) putBack(removed, path string) error {
	if err := s.disk.rename(removed, path); err != nil {
		return fmt.Errorf("putting the record back: %w; it is now %s", err, removed)
	}
	return nil
}
