package installstate

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

// startRun takes the run lock until the test ends.
func startRun(t *testing.T, s *Store) *Lock {
	t.Helper()
	lock, err := s.AcquireRunLock()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(lock.Release)
	return lock
}

// journaled returns the machines in the store's journal, in their order.
func journaled(t *testing.T, s *Store) []string {
	t.Helper()
	file, err := os.Open(s.journalPath())
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	_, records, err := readJournal(file)
	if err != nil {
		t.Fatal(err)
	}
	var machines []string
	for _, data := range records {
		record, err := decode(data)
		if err != nil {
			t.Fatal(err)
		}
		machines = append(machines, record.MachineName)
	}
	return machines
}

func TestRunWritesThroughTheJournal(t *testing.T) {
	t.Parallel()
	s := NewStore(t.TempDir())
	lock := startRun(t, s)
	defer acquire(t, s.AcquireLock).Release() // makes the directories
	well := s.disk
	s.disk.syncDir = func(string) error { return errors.New("a directory was flushed") }
	record := NewRecord(machine, fingerprint)
	save(t, s, record)
	if err := s.MarkComplete(record); err != nil {
		t.Fatal(err)
	}
	if got, want := journaled(t, s), []string{machine, machine}; !slices.Equal(got, want) {
		t.Errorf("got %q in the journal, want %q", got, want)
	}
	if got := load(t, NewStore(s.Dir())).Phase; got != Complete {
		t.Errorf("another process: got %s, want complete", got)
	}
	s.disk = well
	lock.Release()
	if got := journaled(t, s); got != nil {
		t.Errorf("got %q in the journal after the run, want nothing", got)
	}
}

func TestWithoutRunEachRecordIsFlushedByItself(t *testing.T) {
	t.Parallel()
	s := NewStore(t.TempDir())
	save(t, s, NewRecord(machine, fingerprint))
	if _, err := os.Stat(s.journalPath()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want no journal", err)
	}
}

func TestWithoutBootIDThereIsNoJournal(t *testing.T) {
	t.Parallel()
	s := NewStore(t.TempDir())
	s.disk.boot = func() string { return "" }
	startRun(t, s)
	save(t, s, NewRecord(machine, fingerprint))
	if _, err := os.Stat(s.journalPath()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want no journal", err)
	}
}

func TestRecordsOfTheSameTimeShareAFlush(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := NewStore(dir)
		startRun(t, s)
		real, flushes, proceed := s.disk.syncData, 0, make(chan struct{})
		s.disk.syncData = func(file *os.File) error {
			flushes++
			<-proceed
			return real(file)
		}
		var writers sync.WaitGroup
		write := func(name string) {
			writers.Go(func() {
				if err := s.Save(NewRecord(name, fingerprint)); err != nil {
					t.Errorf("%s: got %v", name, err)
				}
			})
		}
		write("first")
		synctest.Wait() // it flushes
		for i := range 9 {
			write(fmt.Sprint(i))
		}
		synctest.Wait() // they wait
		close(proceed)
		writers.Wait()
		if flushes != 2 {
			t.Errorf("got %d flushes for one record and nine after it, want 2", flushes)
		}
		if got := len(journaled(t, s)); got != 10 {
			t.Errorf("got %d records in the journal, want 10", got)
		}
	})
}

func TestFlushWaitsForThoseWhoAreAtWork(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name       string
		took, wait time.Duration
	}{
		{"fast disk", journalGather / 10, journalGather / 5},
		{"slow disk", 10 * journalGather, journalGather},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) { flushTogether(t, dir, test.took, test.wait) })
		})
	}
}

// flushTogether wants a flush to wait for a record that comes shortly after the
// one it is for.
func flushTogether(t *testing.T, dir string, took, wait time.Duration) {
	t.Helper()
	s := NewStore(dir)
	startRun(t, s)
	real, flushes := s.disk.syncData, 0
	s.disk.syncData = func(file *os.File) error {
		flushes++
		time.Sleep(took)
		return real(file)
	}
	defer acquire(t, s.AcquireLock).Release()
	alone := func() {
		t.Helper()
		started := time.Now()
		save(t, s, NewRecord("alone", fingerprint))
		if got := time.Since(started); got != took {
			t.Errorf("alone: got it after %v, want no wait but for the disk, %v", got, took)
		}
	}
	alone()
	lock, err := s.AcquireLock("another")
	if err != nil {
		t.Fatal(err)
	}
	var late sync.WaitGroup
	late.Go(func() {
		time.Sleep(wait - 1)
		if err := s.Save(NewRecord("another", fingerprint)); err != nil {
			t.Errorf("got %v", err)
		}
	})
	started := time.Now()
	save(t, s, NewRecord(machine, fingerprint))
	late.Wait()
	if got, want := time.Since(started), wait+took; got != want || flushes != 2 {
		t.Errorf("together: got both after %v with %d flushes, want %v and one flush more", got, flushes, want)
	}
	lock.Release()
	if err := s.Remove("alone"); err != nil {
		t.Fatal(err)
	}
	alone()
}

func TestJournalThatCannotBeWrittenShowsNothing(t *testing.T) {
	t.Parallel()
	fail := func(*os.File) error { return syscall.EIO }
	tests := map[string]func(*disk){
		"flush": func(d *disk) { d.syncData = fail },
		"flush, and nothing else either": func(d *disk) {
			d.syncData, d.syncAll, d.syncFile = fail, fail, func(string) error { return syscall.EIO }
		},
		"record's file": func(d *disk) {
			d.put = func(path string, _ []byte) error { return &fs.PathError{Op: "write", Path: path, Err: syscall.EIO} }
		},
	}
	for name, breakIt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := NewStore(t.TempDir())
			startRun(t, s)
			record := NewRecord(machine, fingerprint)
			save(t, s, record)
			well := s.disk
			breakIt(&s.disk)
			if err := s.MarkComplete(record); !errors.Is(err, ErrUnwritable) || !errors.Is(err, syscall.EIO) {
				t.Errorf("MarkComplete: got %v, want ErrUnwritable with its cause", err)
			}
			if err := s.Save(NewRecord("another", fingerprint)); !errors.Is(err, ErrUnwritable) {
				t.Errorf("Save: got %v, want ErrUnwritable", err)
			}
			if got := load(t, s).Phase; got != Installing {
				t.Errorf("got %s, want installing", got)
			}
			s.disk = well
			save(t, s, NewRecord("later", fingerprint))
			if got := load(t, s).Phase; got != Installing {
				t.Errorf("got %s afterwards, want installing: what failed must not come back", got)
			}
			if got, want := journaled(t, s), []string{"later"}; !slices.Equal(got, want) {
				t.Errorf("got %q in the journal, want %q: what failed must not come back", got, want)
			}
			if err := s.MarkComplete(record); err != nil {
				t.Errorf("got %v, want it complete when the disk is well again", err)
			}
		})
	}
}

func TestFailedEmptyingIsTriedAgainByItself(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := NewStore(dir)
		startRun(t, s)
		well, tries := s.disk, 0
		s.disk.syncFile = func(path string) error {
			if tries++; tries < 3 {
				return syscall.EIO
			}
			return well.syncFile(path)
		}
		save(t, s, NewRecord(machine, fingerprint))
		time.Sleep(3*journalIdle + time.Second)
		synctest.Wait()
		if got := journaled(t, s); got != nil || tries != 3 {
			t.Errorf("got %q in the journal after %d tries, want nothing after 3", got, tries)
		}
	})
}

// TestRecordIsPutInPlaceBesideLocks: who releases a machine's lock tidies up.
func TestRecordIsPutInPlaceBesideLocks(t *testing.T) {
	t.Parallel()
	for _, action := range []string{"in place", "again"} {
		t.Run(action, func(t *testing.T) {
			t.Parallel()
			s := NewStore(t.TempDir())
			record := NewRecord(machine, fingerprint)
			record.Updated = record.Created
			save(t, s, record)
			data, err := record.encode()
			if err != nil {
				t.Fatal(err)
			}
			well, tries := s.disk, 0
			s.disk.put = func(path string, data []byte) error {
				if tries++; tries == 1 {
					return &fs.PathError{Op: "rename", Path: path, Err: os.Remove(filepath.Join(s.Dir(), "taken away"))}
				}
				return well.put(path, data)
			}
			put := s.putInPlace
			if action == "again" {
				put = s.writeAgain
			}
			if err := put([][]byte{data}); err != nil || tries != 2 {
				t.Errorf("got %v after %d tries, want none after 2", err, tries)
			}
			load(t, s)
		})
	}
}

func TestFewRecordsAreFlushedOneByOne(t *testing.T) {
	t.Parallel()
	for _, few := range []int{0, 1, 2, 3} {
		t.Run(fmt.Sprint(few), func(t *testing.T) {
			t.Parallel()
			s := NewStore(t.TempDir())
			s.few = few
			lock := startRun(t, s)
			save(t, s, NewRecord(machine, fingerprint))
			save(t, s, NewRecord("another", fingerprint))
			if err := os.RemoveAll(s.nodeDir("another")); err != nil {
				t.Fatal(err)
			}
			well, all := s.disk, 0
			s.disk.syncAll = func(file *os.File) error {
				all++
				return well.syncAll(file)
			}
			lock.Release()
			if got, want := all == 0, few >= 2; got != want {
				t.Errorf("got %d flushes of the whole file system for two records, want one only for more than %d", all, few)
			}
			if got := journaled(t, s); got != nil {
				t.Errorf("got %q in the journal, want nothing", got)
			}
		})
	}
}

func TestJournalIsEmptiedWhenNothingWasWrittenForAWhile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := NewStore(dir)
		startRun(t, s)
		save(t, s, NewRecord(machine, fingerprint))
		time.Sleep(journalIdle - 1)
		synctest.Wait()
		if got := len(journaled(t, s)); got != 1 {
			t.Errorf("got %d records in the journal before, want 1", got)
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if got := journaled(t, s); got != nil {
			t.Errorf("got %q in the journal, want nothing", got)
		}
	})
}

// TestFailedEmptyingIsDoneAgainInFull: a kernel reports once that it could not
// write something, and passes it over the next time.
func TestFailedEmptyingIsDoneAgainInFull(t *testing.T) {
	t.Parallel()
	s := NewStore(t.TempDir())
	lock := startRun(t, s)
	save(t, s, NewRecord(machine, fingerprint))
	well := s.disk
	s.disk.syncFile = func(string) error { return syscall.EIO }
	s.journal.Load().idled()
	s.disk = well
	var written []string
	s.disk.put = func(path string, data []byte) error {
		written = append(written, path)
		return well.put(path, data)
	}
	lock.Release()
	if want := []string{s.RecordPath(machine)}; !slices.Equal(written, want) {
		t.Errorf("got %q written again, want %q", written, want)
	}
	if got := journaled(t, s); got != nil {
		t.Errorf("got %q in the journal, want nothing", got)
	}
}

func TestJournalGrowsAndIsEmptiedWhenFull(t *testing.T) {
	t.Parallel()
	s := NewStore(t.TempDir())
	startRun(t, s)
	s.journal.Load().limit = 2 * journalGrowth
	emptied := 0
	well := s.disk
	s.disk.syncAll = func(file *os.File) error {
		emptied++
		return well.syncAll(file)
	}
	for i := 0; emptied < 2; i++ {
		save(t, s, NewRecord(strings.Repeat("n", 2000)+fmt.Sprint(i), fingerprint))
	}
	if got := len(journaled(t, s)); got != 1 {
		t.Errorf("got %d records in the journal, want the one that did not fit", got)
	}
	if entries, err := NewStore(s.Dir()).List(); err != nil || len(entries) < 100 {
		t.Errorf("got %d records, %v, want all", len(entries), err)
	}
}

func TestJournalThatWasRemovedIsMadeAgain(t *testing.T) {
	t.Parallel()
	s := NewStore(t.TempDir())
	startRun(t, s)
	if err := os.Remove(s.journalPath()); err != nil {
		t.Fatal(err)
	}
	save(t, s, NewRecord(machine, fingerprint))
	if got, want := journaled(t, s), []string{machine}; !slices.Equal(got, want) {
		t.Errorf("got %q in the journal, want %q", got, want)
	}
}

func TestKilledRunLeavesItsRecordsAndAJournal(t *testing.T) {
	t.Parallel()
	s := NewStore(t.TempDir())
	c := startChild(t, "run", s.Dir())
	if got := c.line(); got != "saved" {
		t.Fatalf("got %q", got)
	}
	c.kill(t)
	before := load(t, s)
	if got, want := journaled(t, s), []string{machine}; !slices.Equal(got, want) {
		t.Errorf("got %q in the journal, want %q", got, want)
	}
	startRun(t, s)
	if got := journaled(t, s); got != nil {
		t.Errorf("the next run: got %q in the journal, want nothing", got)
	}
	if got := load(t, s); got != before {
		t.Errorf("the next run: got %+v, want %+v", got, before)
	}
}

// saveInRun saves a record as a run does, says so and stays until stdin ends.
func saveInRun(args []string) {
	s := NewStore(args[0])
	run, err := s.AcquireRunLock()
	if err == nil {
		err = s.Save(NewRecord(machine, fingerprint))
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("saved")
	wait(nil)
	run.Release()
}

func TestUnreadableJournalIsKept(t *testing.T) {
	t.Parallel()
	good, err := newHead("boot").text()
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]string{
		"empty":           "",
		"zeros":           strings.Repeat("\x00", headSize),
		"cut off":         string(good[:40]),
		"another version": strings.Replace(string(good), `"journal":1`, `"journal":2`, 1),
		"no boot":         strings.Replace(string(good), `"boot":"boot"`, `"boot":""    `, 1),
	}
	for name, text := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := NewStore(t.TempDir())
			save(t, s, NewRecord(machine, fingerprint))
			s.caughtUp.Store(false)
			if err := os.WriteFile(s.journalPath(), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			for action, do := range map[string]func() error{
				"Load":           func() error { _, err := s.Load(machine); return err },
				"List":           func() error { _, err := s.List(); return err },
				"RestartAsked":   func() error { _, err := s.RestartAsked(); return err },
				"AcquireRunLock": func() error { _, err := s.AcquireRunLock(); return err },
				"CheckWritable":  s.CheckWritable,
				"Remove":         func() error { return s.Remove(machine) },
				"Save":           func() error { return s.Save(NewRecord("another", fingerprint)) },
			} {
				if err := do(); !errors.Is(err, ErrUnwritable) || !strings.Contains(err.Error(), s.journalPath()) {
					t.Errorf("%s: got %v, want ErrUnwritable that names the journal", action, err)
				}
			}
			if kept, err := os.ReadFile(s.journalPath()); err != nil || string(kept) != text {
				t.Errorf("got %q, %v, want the file as it was", kept, err)
			}
			if err := os.Remove(s.journalPath()); err != nil { // as the error says
				t.Fatal(err)
			}
			load(t, s)
			startRun(t, s)
		})
	}
}

func TestJournalEndsWhereALineDoesNotFit(t *testing.T) {
	t.Parallel()
	head := newHead("boot")
	entries := []*entry{{data: []byte(`{ "n": 1 }`)}, {data: []byte("{\n\"n\": 2}\n")}}
	text, err := head.lines(entries)
	if err != nil {
		t.Fatal(err)
	}
	stale, err := newHead("boot").lines([]*entry{{data: []byte(`{"n":3}`)}})
	if err != nil {
		t.Fatal(err)
	}
	first := strings.IndexByte(string(text), '\n') + 1
	tests := []struct {
		name, lines string
		want        []string
	}{
		{"nothing", "", nil},
		{"blank", "\n\n", nil},
		{"zeros", strings.Repeat("\x00", 3*maxLine), nil},
		{"both", string(text), []string{`{"n":1}`, `{"n":2}`}},
		{"blank behind", string(text) + "\n\n", []string{`{"n":1}`, `{"n":2}`}},
		{"of another epoch behind", string(text) + string(stale), []string{`{"n":1}`, `{"n":2}`}},
		{"the second cut off", string(text[:len(text)-4]), []string{`{"n":1}`}},
		{"the second without its end", string(text[:len(text)-1]), []string{`{"n":1}`, `{"n":2}`}},
		{"the second changed", string(text[:len(text)-3]) + "3}\n", []string{`{"n":1}`}},
		{"the first blank", "\n" + string(text[first:]), nil},
		{"a sum too short", "1 {}\n", nil},
		{"a sum alone", "00000000\n", nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			start, err := head.text()
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(t.TempDir(), journalFile)
			if err := os.WriteFile(path, append(start, test.lines...), 0o600); err != nil {
				t.Fatal(err)
			}
			file, err := os.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			gotHead, records, err := readJournal(file)
			if err != nil || gotHead != head {
				t.Fatalf("got %+v, %v, want %+v", gotHead, err, head)
			}
			var got []string
			for _, record := range records {
				got = append(got, string(record))
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestJournalThatAStoppedProcessHasLocked(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := NewStore(dir)
		startRun(t, s)
		file, err := os.Open(s.journalPath())
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		if err := flock(file, unix.LOCK_EX); err != nil {
			t.Fatal(err)
		}
		started := time.Now()
		err = s.Save(NewRecord(machine, fingerprint))
		if !errors.Is(err, ErrUnwritable) || !strings.Contains(err.Error(), s.journalPath()) {
			t.Errorf("got %v, want ErrUnwritable that names the journal", err)
		}
		if waited := time.Since(started); waited < journalWait {
			t.Errorf("got it after %v, want it to wait %v", waited, journalWait)
		}
	})
}

func TestRecordIsWrittenOverInPlace(t *testing.T) {
	t.Parallel()
	long, short := strings.Repeat("long", 20)+"\n", "short\n"
	tests := []struct {
		name, before, data, want string
		prepare                  func(t *testing.T, path string)
		sameFile                 bool
	}{
		{"longer", short, long, long, nil, true},
		{"shorter", long, short, short + strings.Repeat("\n", len(long)-len(short)), nil, true},
		{"more than a page before", strings.Repeat("x", maxWriteOver+1), short, short, nil, false},
		{"more than a page now", short, strings.Repeat("x", maxWriteOver+1), strings.Repeat("x", maxWriteOver+1), nil, false},
		{"being read", long, short, short, func(t *testing.T, path string) {
			file, err := os.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { file.Close() })
			awaitWriter(file)
		}, false},
		{"a link", long, short, short, func(t *testing.T, path string) {
			if err := errors.Join(os.Rename(path, path+".target"), os.Symlink(path+".target", path)); err != nil {
				t.Fatal(err)
			}
		}, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), recordFile)
			if err := os.WriteFile(path, []byte(test.before), 0o600); err != nil {
				t.Fatal(err)
			}
			before, err := os.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer before.Close()
			if test.prepare != nil {
				test.prepare(t, path)
			}
			if err := putFile(path, []byte(test.data)); err != nil {
				t.Fatal(err)
			}
			if got, err := os.ReadFile(path); err != nil || string(got) != test.want {
				t.Errorf("got %q, %v, want %q", got, err, test.want)
			}
			if _, got := hasName(before, path); got != test.sameFile {
				t.Errorf("got %v for the file being the same, want %v", got, test.sameFile)
			}
		})
	}
}

func TestReaderWaitsForWhoWritesOver(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := NewStore(dir)
		save(t, s, NewRecord(machine, fingerprint))
		writer, err := os.OpenFile(s.RecordPath(machine), os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer writer.Close()
		if err := flock(writer, unix.LOCK_EX); err != nil {
			t.Fatal(err)
		}
		whole, err := os.ReadFile(s.RecordPath(machine))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := writer.WriteAt([]byte("half"), 0); err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		time.AfterFunc(time.Second/2, func() {
			defer close(done)
			_, _ = writer.WriteAt(whole, 0)
			_ = flock(writer, unix.LOCK_UN)
		})
		load(t, s)
		<-done
		if err := flock(writer, unix.LOCK_EX); err != nil {
			t.Fatalf("got %v, want the reader to be done with it", err)
		}
		started := time.Now()
		load(t, s)
		if waited := time.Since(started); waited > 5*time.Second {
			t.Errorf("got %v, want a writer that was stopped not to be waited for without end", waited)
		}
	})
}

func TestJournalIsEmptiedByAProcessThatDoesNotKnowTheBoot(t *testing.T) {
	t.Parallel()
	for name, boot := range map[string]string{"unknown": "", "of another machine": "another"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := NewStore(t.TempDir())
			startRun(t, s)
			save(t, s, NewRecord(machine, fingerprint))
			other := NewStore(s.Dir())
			other.disk.boot = func() string { return boot }
			load(t, other)
			if got := journaled(t, s); got != nil {
				t.Errorf("got %q in the journal, want nothing", got)
			}
			save(t, s, NewRecord("later", fingerprint))
			if got, want := journaled(t, s), []string{"later"}; !slices.Equal(got, want) {
				t.Errorf("got %q in the journal, want %q", got, want)
			}
			head, err := readHead(s.journal.Load().file)
			if err != nil || head.Boot != s.disk.boot() {
				t.Errorf("got boot %q, %v, want that of the run", head.Boot, err)
			}
		})
	}
}

// TestEmptyJournalIsFlushedBeforeARecordIsWrittenWithoutIt: who emptied it may be
// about to flush that, or was killed before; the records in it would come back.
func TestEmptyJournalIsFlushedBeforeARecordIsWrittenWithoutIt(t *testing.T) {
	t.Parallel()
	run := NewStore(t.TempDir())
	startRun(t, run)
	record := NewRecord(machine, fingerprint)
	save(t, run, record)
	run.disk.syncData = func(*os.File) error { return syscall.EIO }
	run.journal.Load().idled()
	if got := journaled(t, run); got != nil {
		t.Fatalf("got %q in the journal, want it to be emptied, all but the flush", got)
	}
	other := NewStore(run.Dir())
	real := other.disk
	var done []string
	other.disk.syncData = func(file *os.File) error {
		done = append(done, "flush")
		return real.syncData(file)
	}
	other.disk.replace = func(path string, data []byte) error {
		done = append(done, "write")
		return real.replace(path, data)
	}
	if err := other.MarkComplete(record); err != nil {
		t.Fatal(err)
	}
	if err := other.BeginReset(machine); err != nil {
		t.Fatal(err)
	}
	if want := []string{"flush", "write", "write"}; !slices.Equal(done, want) {
		t.Errorf("got %q, want %q", done, want)
	}
}

func TestFailedWriteIsTakenOutOfTheJournalAtOnce(t *testing.T) {
	t.Parallel()
	s := NewStore(t.TempDir())
	startRun(t, s)
	real := s.disk.syncData
	s.disk.syncData = func(*os.File) error {
		s.disk.syncData = real
		return syscall.EIO
	}
	if err := s.Save(NewRecord(machine, fingerprint)); !errors.Is(err, syscall.EIO) {
		t.Errorf("got %v, want the cause", err)
	}
	if got := journaled(t, s); got != nil {
		t.Errorf("got %q in the journal, want nothing: it would come back after a power cut", got)
	}
}

func TestNameOfAJournalThatWasThereIsFlushed(t *testing.T) {
	t.Parallel()
	s := NewStore(t.TempDir())
	startRun(t, s).Release()
	var flushed []string
	s.disk.syncDir = func(path string) error {
		flushed = append(flushed, path)
		return nil
	}
	startRun(t, s)
	if want := []string{s.Dir()}; !slices.Equal(flushed, want) {
		t.Errorf("got directories %q flushed, want %q: who made the journal may have been killed before", flushed, want)
	}
}

func TestPipeIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		path func(*Store) string
		want error
	}{
		"journal": {(*Store).journalPath, ErrUnwritable},
		"record":  {func(s *Store) string { return s.RecordPath(machine) }, ErrUnusable},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := NewStore(t.TempDir())
			save(t, s, NewRecord(machine, fingerprint))
			s.caughtUp.Store(false)
			path := test.path(s)
			if err := errors.Join(os.RemoveAll(path), unix.Mkfifo(path, 0o600)); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Load(machine); !errors.Is(err, test.want) || !strings.Contains(err.Error(), path) {
				t.Errorf("got %v, want %v that names %s", err, test.want, path)
			}
		})
	}
}

// TestJournalThatCannotGrowIsEmptied: on a full disk the records that are there
// can still be written over.
func TestJournalThatCannotGrowIsEmptied(t *testing.T) {
	t.Parallel()
	s := NewStore(t.TempDir())
	c := startChild(t, "cramped", s.Dir())
	if got := c.line(); got != "<nil>" {
		t.Fatalf("got %s, want room after emptying", got)
	}
	if got := len(journaled(t, s)); got == 0 || got >= crampedSaves {
		t.Errorf("got %d records in the journal, want those after it was full", got)
	}
	c.kill(t)
	load(t, s)
}

// crampedSaves are more than fit into a journal that cannot grow.
const crampedSaves = journalGrowth / 200

// cramped saves in a run as often on a disk that has no room but what its journal
// takes, says how it went and stays until stdin ends.
func cramped(args []string) {
	signal.Ignore(syscall.SIGXFSZ)
	s := NewStore(args[0])
	run, err := s.AcquireRunLock()
	if err == nil {
		err = unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: headSize + journalGrowth, Max: headSize + journalGrowth})
	}
	record := NewRecord(machine, fingerprint)
	for i := 0; err == nil && i < crampedSaves; i++ {
		err = s.Save(record)
	}
	fmt.Println(err)
	wait(nil)
	run.Release()
}
