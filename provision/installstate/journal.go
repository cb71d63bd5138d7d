package installstate

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"
)

const (
	journalFile   = "journal"
	journalGrowth = 128 << 10 // bytes by which it grows
	journalLimit  = 8 << 20   // bytes, some 13,000 records, at which it is emptied
	journalFew    = 64        // records that are flushed one by one
	journalIdle   = 5 * time.Second

	// journalGather is the most that a flush waits for others to join it.
	journalGather = time.Millisecond
)

// journal makes the records of a run durable together. Flushing each record's
// file and directory takes the disk five waits a node; a line in the journal
// takes one, which all who write at that time share.
//
// A record is flushed here first, and then goes into its own file, which is what
// everybody reads, without a flush. So the journal matters only when the machine
// went down in between: the next process puts its records in place before it
// reads any (see Store.catchUp). Once the files are flushed as well, the journal
// is emptied: when it is full, when nothing was written for a while, at the end
// of the run, and by a process that is about to write a record without it.
//
// Who holds the run lock writes it, so there is one writer. Whoever writes or
// empties it has it locked meanwhile, until the records are in their files.
type journal struct {
	store  *Store
	limit  int64 // journalLimit
	rounds group[*entry]
	took   atomic.Int64 // nanoseconds of the last flush

	mu     sync.Mutex // held by who writes or empties
	file   *os.File   // nil: not open
	head   journalHead
	end    int64       // where the next line goes
	size   int64       // of the file: blank lines after end, so that flushing a record flushes no length
	spoilt bool        // a write failed: what it left must not pass for a record
	unsure bool        // emptying failed, and what a flush could not write the next one passes over
	idle   *time.Timer // empties it when nothing was written for a while
}

func (s *Store) journalPath() string { return filepath.Join(s.dir, journalFile) }

// startJournal has records written through the journal from now on, where the
// system tells what is needed for it.
func (s *Store) startJournal() error {
	if s.disk.boot() == "" {
		return nil
	}
	j := &journal{store: s, limit: journalLimit}
	j.rounds.gather = j.gather
	if err := j.open(); err != nil {
		return unwritable(err)
	}
	j.idle = time.AfterFunc(journalIdle, j.idled)
	s.journal.Store(j)
	return nil
}

// stopJournal leaves an empty journal, unless that fails: what is in it then is
// for the next run.
func (s *Store) stopJournal() {
	j := s.journal.Swap(nil)
	if j == nil {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.idle.Stop()
	_ = j.rest()
	j.file.Close()
}

// entry is a record on its way through the journal to its file.
type entry struct {
	path string
	data []byte
	err  error // of putting it there
}

// add returns when the record is durable and in its file, or neither.
func (j *journal) add(path string, record []byte) error {
	e := &entry{path: path, data: record}
	if err := j.rounds.do(e, j.write); err != nil {
		return err
	}
	return e.err
}

// gather waits for others to join the next flush, if anybody else is at work on
// a machine: twice what the last flush took. A flush that is spared is worth it,
// since waiting for the disk takes more of the processor than anything here.
func (j *journal) gather() {
	if j.store.held.Load() > 1 {
		time.Sleep(min(2*time.Duration(j.took.Load()), journalGather))
	}
}

func (j *journal) write(entries []*entry) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	defer j.idle.Reset(journalIdle)
	if err := j.open(); err != nil {
		return err
	}
	return locked(j.file, func() error {
		err := j.flush(entries)
		if err == nil {
			j.putEach(entries)
		}
		if j.spoilt {
			_ = j.empty() // else before the next record
		}
		return err
	})
}

func (j *journal) putEach(entries []*entry) {
	for _, e := range entries {
		e.err = j.store.disk.put(e.path, e.data)
		j.spoilt = j.spoilt || e.err != nil
	}
}

// flush makes the records durable.
func (j *journal) flush(entries []*entry) error {
	text, err := j.room(entries)
	if err != nil {
		return err
	}
	if _, err = j.file.WriteAt(text, j.end); err == nil {
		started := time.Now()
		err = j.store.disk.syncData(j.file)
		j.took.Store(int64(time.Since(started)))
	}
	if err != nil {
		j.spoilt = true
		return err
	}
	j.end += int64(len(text))
	return nil
}

// room makes room for the records, and returns them as lines of the journal.
func (j *journal) room(entries []*entry) ([]byte, error) {
	head, err := readHead(j.file)
	if err != nil {
		return nil, err
	}
	if head != j.head { // another process has emptied it
		if err := j.begin(head); err != nil {
			return nil, err
		}
		if head.Boot != j.store.disk.boot() { // on another machine: the lines must not pass for its own
			if err := j.empty(); err != nil {
				return nil, err
			}
		}
	}
	text, err := j.head.lines(entries)
	if err != nil {
		return nil, err
	}
	if !j.spoilt && j.grow(text) == nil {
		return text, nil
	}
	if err := j.empty(); err != nil {
		return nil, err
	}
	if text, err = j.head.lines(entries); err != nil {
		return nil, err
	}
	return text, j.grow(text)
}

var errJournalFull = errors.New("the journal is full")

// grow makes the file hold the text after what is in it. An empty journal has no
// limit.
func (j *journal) grow(text []byte) error {
	need := j.end + int64(len(text))
	if need > j.limit && j.end > headSize {
		return errJournalFull
	}
	if need <= j.size {
		return nil
	}
	blank := blankLines(need - j.size + journalGrowth)
	if _, err := j.file.WriteAt(blank, j.size); err != nil {
		return err
	}
	j.size += int64(len(blank))
	return nil
}
