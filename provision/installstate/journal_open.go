package installstate

import (
	"errors"
	"io/fs"
	"os"
)

// open makes the journal when it is not there, also when somebody removed it
// while we had it open.
func (j *journal) open() error {
	path := j.store.journalPath()
	if j.file != nil {
		if _, ok := hasName(j.file, path); ok {
			return nil
		}
	}
	file, err := j.store.openJournal(path)
	if err != nil {
		return err
	}
	if j.file != nil {
		j.file.Close()
		j.unsure = true // what it held is lost
	}
	j.file = file
	return locked(file, j.takeOver)
}

// takeOver begins with what is in the file: nothing, or what a run left that was
// killed, of which nobody knows whether it is flushed.
func (j *journal) takeOver() error {
	head, records, err := readJournal(j.file)
	if err != nil {
		return err
	}
	if len(records) > 0 || head.Boot != j.store.disk.boot() {
		j.unsure = true
	}
	if j.unsure {
		return j.empty()
	}
	return j.begin(head)
}

// openJournal makes its name durable even when the journal was there: who made
// it may have been killed before that.
func (s *Store) openJournal(path string) (*os.File, error) {
	file, err := openFile(path, os.O_RDWR)
	if errors.Is(err, fs.ErrNotExist) {
		if err := s.makeJournal(path); err != nil {
			return nil, err
		}
		file, err = openFile(path, os.O_RDWR)
	}
	if err != nil {
		return nil, err
	}
	if err := s.disk.syncDir(s.dir); err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

func (s *Store) makeJournal(path string) error {
	text, err := newHead(s.disk.boot()).text()
	if err != nil {
		return err
	}
	return s.disk.replace(path, append(text, blankLines(journalGrowth)...))
}
