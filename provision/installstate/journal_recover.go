package installstate

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// catchUp puts in place what a journal holds that was written before the machine
// went down, once for each Store, before it reads any record.
func (s *Store) catchUp() error {
	if s.caughtUp.Load() {
		return nil
	}
	err := s.settle(func(head journalHead, holds bool) bool { return holds && head.Boot != s.disk.boot() })
	if err != nil {
		return unwritable(err)
	}
	s.caughtUp.Store(true)
	return nil
}

// leaveJournal empties the journal, for who writes a machine's record without
// it while holding the machine's lock: an older record in it must not come back.
// That another process has emptied it is not enough: it may not have flushed
// that yet, and never will if it was killed.
func (s *Store) leaveJournal() error {
	return s.settle(func(head journalHead, holds bool) bool {
		emptied := s.emptied.Load()
		return holds || emptied == nil || *emptied != head.Epoch
	})
}

// settle empties the journal if that is due by its head and by whether it holds
// records.
func (s *Store) settle(due func(head journalHead, holds bool) bool) error {
	// Most often there is nothing to do, which is not worth a lock and must not
	// need the right to write. Opening a pipe must not wait for its other end.
	found, err := s.journalDue(os.O_RDONLY|unix.O_NONBLOCK, due, func(*os.File) error { return nil })
	if err != nil || !found {
		return err
	}
	_, err = s.journalDue(os.O_RDWR, due, func(file *os.File) error {
		_, err := s.emptyJournal(file, false)
		return err
	})
	return err
}

// journalDue calls do with the journal if that is due, locked where it was opened
// to be written.
func (s *Store) journalDue(flags int, due func(journalHead, bool) bool, do func(*os.File) error) (found bool, err error) {
	file, err := openFile(s.journalPath(), flags)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer file.Close()
	look := func() error {
		head, err := readHead(file)
		if err != nil || !due(head, true) { // most often, and without reading more
			return err
		}
		_, records, err := readJournal(file)
		if err != nil || !due(head, len(records) > 0) {
			return err
		}
		found = true
		return do(file)
	}
	if flags&os.O_RDWR != 0 {
		err = locked(file, look)
	} else {
		err = look()
	}
	return found, err
}

// putInPlace writes the last record of each machine where it belongs. Nothing is
// flushed yet.
func (s *Store) putInPlace(records [][]byte) error {
	last, err := s.lastOf(records)
	if err != nil {
		return err
	}
	for machine, record := range last {
		data, err := record.encode()
		if err != nil {
			return err
		}
		if err := s.putInDir(machine, data); err != nil {
			return err
		}
	}
	return nil
}

// putInDir makes the machine's directory when it is not there. Who lets go of
// the machine's lock may take that away again before the file is in it, or the
// half-written file.
func (s *Store) putInDir(machine string, data []byte) error {
	for try := 1; ; try++ {
		_, err := s.makeDir(s.nodeDir(machine))
		if err == nil {
			err = s.disk.put(s.RecordPath(machine), data)
		}
		if !errors.Is(err, fs.ErrNotExist) || try == lockTries {
			return err
		}
	}
}

func (s *Store) lastOf(records [][]byte) (map[string]Record, error) {
	last := make(map[string]Record, len(records))
	for _, data := range records {
		record, err := decode(data)
		if err != nil {
			return nil, fmt.Errorf("a record in %s: %w", s.journalPath(), err)
		}
		last[record.MachineName] = record
	}
	return last, nil
}

// journalWait bounds waiting for a process that writes or empties the journal:
// it may have been stopped in the middle.
const journalWait = 10 * time.Second

// locked runs do while nobody else writes or empties the journal.
func locked(file *os.File, do func() error) error {
	for tried := time.Now(); ; time.Sleep(time.Millisecond) {
		err := flock(file, unix.LOCK_EX)
		if err == nil {
			break
		}
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return err
		}
		if time.Since(tried) > journalWait {
			return fmt.Errorf("%s: another process has had it locked for %v", file.Name(), journalWait)
		}
	}
	defer func() { _ = flock(file, unix.LOCK_UN) }()
	return do()
}
