package installstate

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Entry is one machine in the store.
type Entry struct {
	// Machine is the machine's name; empty when it is too long for a file name
	// and the record, which would tell, cannot be used.
	Machine string
	File    string // of the record
	Record  Record // zero without record, or when Err is set
	Err     error  // ErrUnusable; nil when the record is fine or there is none
	Locked  bool   // a process is at work on it now
	Holder  Holder // which, when Locked
}

// HasRecord reports whether there is a record, usable or not.
func (e Entry) HasRecord() bool { return e.Err != nil || e.Record.SchemaVersion != 0 }

// List returns every machine that has a record or is being worked on, ordered
// by file name, each with its own error. The error is that of Load where it
// concerns the journal, or that of reading the directory; a store that does not
// exist yet is empty. List takes no machine's lock and changes nothing but what
// the journal says.
func (s *Store) List() ([]Entry, error) {
	dirs, err := s.machineDirs()
	if err != nil {
		return nil, err
	}
	var entries []Entry
	for _, dir := range dirs {
		entry, ok := s.entry(dir.Name())
		if ok && (entry.HasRecord() || entry.Locked) {
			entries = append(entries, entry)
		}
	}
	return entries, nil
}

// machineDirs returns the machines' directories; none where no store is.
func (s *Store) machineDirs() ([]fs.DirEntry, error) {
	if err := s.catchUp(); err != nil {
		return nil, err
	}
	dirs, err := os.ReadDir(s.nodesDir())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("listing the records: %w", err)
	}
	return dirs, nil
}

// entry is false for names that this package never makes.
func (s *Store) entry(name string) (Entry, bool) {
	machine, ok := unescape(name)
	switch {
	case ok:
		record, err := s.Load(machine)
		if errors.Is(err, ErrNotFound) {
			err = nil
		}
		return s.withHolder(Entry{Machine: machine, Record: record, Err: err}, name), true
	case isHashed(name):
		return s.hashedEntry(name), true
	default:
		return Entry{}, false
	}
}

// hashedEntry takes the machine's name from the record.
func (s *Store) hashedEntry(name string) Entry {
	path := filepath.Join(s.nodesDir(), name, recordFile)
	record, err := readNoted(filepath.Dir(path))
	entry := Entry{Machine: record.MachineName, Record: record}
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		entry = Entry{Err: unusable("a machine with a long name", path, err)}
	case escape(record.MachineName) != name:
		entry = Entry{Err: unusable("a machine with a long name", path, fmt.Errorf("it names the machine %q", record.MachineName))}
	}
	return s.withHolder(entry, name)
}

func (s *Store) withHolder(e Entry, name string) Entry {
	dir := filepath.Join(s.nodesDir(), name)
	e.File = filepath.Join(dir, recordFile)
	// A lock file that cannot be opened says nothing; the record's own error does.
	e.Holder, e.Locked, _ = held(filepath.Join(dir, lockFile))
	return e
}

// isTemporary reports whether name is a half-written record of a killed
// process: the record's name with a dot before and a number behind.
func isTemporary(name string) bool {
	number, ok := strings.CutPrefix(name, "."+recordFile)
	return ok && number != "" && strings.Trim(number, "0123456789") == ""
}
