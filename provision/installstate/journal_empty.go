package installstate

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
)

// idled is for the timer.
func (j *journal) idled() {
	if !j.mu.TryLock() { // somebody writes, and will be idle later
		return
	}
	defer j.mu.Unlock()
	if j.rest() != nil {
		j.idle.Reset(journalIdle)
	}
}

// rest empties the journal when there is anything in it. When that fails it
// stays as it is.
func (j *journal) rest() error {
	if j.end == headSize && !j.spoilt {
		return nil
	}
	return locked(j.file, j.empty)
}

func (j *journal) empty() error {
	head, err := j.store.emptyJournal(j.file, j.unsure)
	if err != nil {
		j.unsure = true
		return err
	}
	j.unsure = false
	return j.begin(head)
}

// begin is for a journal that is empty.
func (j *journal) begin(head journalHead) error {
	info, err := j.file.Stat()
	if err != nil {
		return err
	}
	j.head, j.end, j.size, j.spoilt = head, headSize, info.Size(), false
	return nil
}

// emptyJournal makes what the journal holds durable in its own place, and
// returns how the journal begins then. The caller has the file locked. As long
// as the machine is up the records are in their files already; unsure says that
// these have to be written again.
func (s *Store) emptyJournal(file *os.File, unsure bool) (journalHead, error) {
	head, records, err := readJournal(file)
	if err != nil {
		return head, err
	}
	boot := s.disk.boot()
	switch {
	case head.Boot != boot:
		err = s.putInPlace(records)
	case unsure:
		err = s.writeAgain(records)
	}
	if err != nil {
		return head, err
	}
	if len(records) > 0 || unsure {
		if err := s.flushInPlace(file, records); err != nil {
			return head, err
		}
	}
	// Without /proc/sys, as in some services, the boot is not known. Who reads
	// an empty journal does not care, and who writes it does not keep a wrong one.
	head = newHead(cmp.Or(boot, head.Boot))
	text, err := head.text()
	if err != nil {
		return head, err
	}
	if _, err := file.WriteAt(text, 0); err != nil {
		return head, err
	}
	if err := s.disk.syncData(file); err != nil {
		return head, err
	}
	s.emptied.Store(&head.Epoch)
	return head, nil
}

// writeAgain writes the machines' records as they are in their files, so that
// the next flush flushes them. A file that is not there was removed.
func (s *Store) writeAgain(records [][]byte) error {
	last, err := s.lastOf(records)
	if err != nil {
		return err
	}
	for machine := range last {
		path := s.RecordPath(machine)
		data, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if err := s.putInDir(machine, data); err != nil {
			return err
		}
	}
	return nil
}

// flushInPlace flushes the records' own files; without records, whichever these
// are. A few are flushed one by one: the whole file system may hold much that
// other programs wrote and nobody waits for.
func (s *Store) flushInPlace(file *os.File, records [][]byte) error {
	if len(records) == 0 || len(records) > s.few {
		return s.disk.syncAll(file)
	}
	last, err := s.lastOf(records)
	if err != nil {
		return err
	}
	for machine := range last {
		err := s.disk.syncFile(s.RecordPath(machine))
		if err == nil {
			err = s.disk.syncDir(s.nodeDir(machine))
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // else it was removed
			return err
		}
	}
	return s.disk.syncDir(s.nodesDir())
}
