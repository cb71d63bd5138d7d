package installstate

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// TestPowerCutLosesNothingThatWasPromised has a run and a second process write
// records until the power goes, at any moment. Whatever the disk made of what
// was not flushed, each record must be the last one that was promised, or the one
// that was being written, and the next run must be able to go on.
func TestPowerCutLosesNothingThatWasPromised(t *testing.T) {
	t.Parallel()
	for seed := range uint64(100) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(seed, 0))
			w := &world{dir: t.TempDir(), random: random, left: 1 + random.IntN(150), synced: map[string]string{}, durable: map[string]string{}}
			promises := work(t, w)
			checkPromises(t, w.image(t), promises)
		})
	}
}

// work returns what was promised of each machine until the power went.
func work(t *testing.T, w *world) []*promise {
	t.Helper()
	run, other := w.store(), w.store()
	run.few, other.few = w.random.IntN(10), w.random.IntN(10)
	promises := make([]*promise, 8)
	for i := range promises {
		promises[i] = &promise{machine: fmt.Sprintf("n%d", i)}
	}
	lock, err := run.AcquireRunLock()
	if err != nil { // the power went before anything began
		return promises
	}
	if w.random.IntN(2) == 0 {
		run.journal.Load().limit = headSize + 1500 // or it would never be full
	}
	var workers sync.WaitGroup
	for i, p := range promises {
		random := rand.New(rand.NewPCG(w.random.Uint64(), uint64(i)))
		workers.Go(func() {
			for err := error(nil); err == nil; {
				store := run
				if random.IntN(4) == 0 {
					store = other
				}
				err = p.next(store, random)
			}
		})
	}
	workers.Wait()
	lock.Release()
	return promises
}

// promise is what the writers of one machine's record were told.
type promise struct {
	machine     string
	kept, tried Record // zero: none
}

// next does what may come next to the record.
func (p *promise) next(s *Store, random *rand.Rand) error {
	lock, err := s.AcquireLock(p.machine)
	if err != nil {
		return err
	}
	defer lock.Release()
	record, disposition, err := Admit(s, p.machine, fingerprint)
	p.tried = record
	switch {
	case errors.Is(err, ErrResetting):
		p.tried = Record{}
		err = s.Remove(p.machine)
	case err != nil:
		return err
	case disposition == Fresh:
		p.tried = NewRecord(p.machine, fingerprint)
		err = s.Save(p.tried)
	case random.IntN(4) == 0:
		p.tried.Phase = Resetting
		err = s.BeginReset(p.machine)
	case disposition == Resume:
		p.tried.Phase = Complete
		err = s.MarkComplete(record)
	default:
		p.tried = record.Successor()
		err = s.Save(p.tried)
	}
	if err == nil {
		p.kept = p.tried
	}
	return err
}

func checkPromises(t *testing.T, dir string, promises []*promise) {
	t.Helper()
	s := NewStore(dir)
	s.disk.boot = func() string { return "after the cut" }
	for _, p := range promises {
		record, err := s.Load(p.machine)
		if err != nil && !errors.Is(err, ErrNotFound) {
			t.Fatalf("%s: got %v, want a whole record or none", p.machine, err)
		}
		if !same(record, p.kept) && !same(record, p.tried) {
			t.Errorf("%s: got %s of %q, want %s of %q or %s of %q", p.machine, record.Phase, record.InstallationID,
				p.kept.Phase, p.kept.InstallationID, p.tried.Phase, p.tried.InstallationID)
		}
	}
	lock, err := s.AcquireRunLock()
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Release()
	if err := s.Save(NewRecord("another", fingerprint)); err != nil {
		t.Errorf("the next run: got %v", err)
	}
}

func same(a, b Record) bool { return a.InstallationID == b.InstallationID && a.Phase == b.Phase }

// world is a disk that keeps for sure only what was flushed when the power goes.
type world struct {
	dir    string
	random *rand.Rand

	mu      sync.Mutex
	left    int               // touches until the power goes
	synced  map[string]string // files that were flushed before they took their names, by path
	durable map[string]string // files that are on the disk, by path
	found   map[string]string // all files as they were when the power went
}

func (w *world) store() *Store {
	s := NewStore(w.dir)
	real := s.disk
	s.disk = disk{
		mkdir:  real.mkdir, // directories without files do not matter
		boot:   func() string { return "before the cut" },
		put:    func(path string, data []byte) error { return w.touch(func() error { return real.put(path, data) }) },
		rename: func(from, to string) error { return w.touch(func() error { return real.rename(from, to) }) },
		remove: func(path string) error { return w.touch(func() error { return real.remove(path) }) },
		replace: func(path string, data []byte) error {
			return w.touch(func() error {
				w.synced[w.relative(path)] = string(data)
				return real.replace(path, data)
			})
		},
		syncFile: func(path string) error {
			return w.touch(func() error {
				data, err := os.ReadFile(path)
				w.synced[w.relative(path)] = string(data)
				return err
			})
		},
		syncDir: func(path string) error { return w.touch(func() error { return w.flushDir(path) }) },
		syncData: func(file *os.File) error {
			return w.touch(func() error {
				name := w.relative(file.Name())
				w.durable[name] = w.files()[name]
				return nil
			})
		},
		syncAll: func(*os.File) error {
			return w.touch(func() error {
				w.durable = w.files()
				return nil
			})
		},
	}
	return s
}

// touch does what touches the disk, as long as there is power.
func (w *world) touch(do func() error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.left--
	if w.left == 0 {
		w.found = w.files()
	}
	if w.left <= 0 {
		return syscall.EIO
	}
	return do()
}

func (w *world) relative(path string) string { return strings.TrimPrefix(path, w.dir+"/") }

// files returns all files but locks.
func (w *world) files() map[string]string {
	files := map[string]string{}
	_ = fs.WalkDir(os.DirFS(w.dir), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || strings.HasSuffix(path, lockFile) {
			return nil // a lock that is let go removes empty directories meanwhile
		}
		data, err := os.ReadFile(filepath.Join(w.dir, path))
		if err == nil {
			files[path] = string(data)
		}
		return nil
	})
	return files
}

// flushDir makes the names in a directory durable, with what was flushed under them.
func (w *world) flushDir(dir string) error {
	files, relative := w.files(), w.relative(dir)
	for path := range w.durable {
		if _, there := files[path]; !there && filepath.Dir(path) == relative {
			delete(w.durable, path)
		}
	}
	for path, data := range files {
		if filepath.Dir(path) == relative && w.synced[path] == data {
			w.durable[path] = data
		}
	}
	return nil
}

// image returns a directory with what the disk may hold after the power cut.
func (w *world) image(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	paths := map[string]bool{}
	for path := range w.found {
		paths[path] = true
	}
	for path := range w.durable {
		paths[path] = true
	}
	for path := range paths {
		data, there := w.afterCut(path)
		if !there {
			continue
		}
		file := filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// afterCut returns what became of a file: it is as it was flushed, as it was
// written, or something between where nothing says that it must not be.
func (w *world) afterCut(path string) (string, bool) {
	durable, kept := w.durable[path]
	found, written := w.found[path]
	ordered := path != journalFile && w.synced[path] == found || !written // a flushed file took the name, or a name is gone
	switch w.random.IntN(4) {
	case 0:
		return durable, kept
	case 1:
		return found, written
	}
	if ordered || found == durable {
		return durable, kept
	}
	if path == journalFile { // sectors are written whole
		return mix(found, durable, headSize*(1+w.random.IntN(8))), true
	}
	return mix(found, durable, w.random.IntN(len(found)+1)), true
}

// mix returns the first n bytes of a and the rest of b; what b does not have is
// zeros.
func mix(a, b string, n int) string {
	n = min(n, len(a))
	if len(b) < n {
		b += strings.Repeat("\x00", n-len(b))
	}
	return a[:n] + b[n:]
}
