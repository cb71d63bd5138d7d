package installstate

import (
	"bytes"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"choria-provision/internal/named"

	"golang.org/x/sys/unix"
)

// disk is what touches the file system for good; tests let single ones fail.
type disk struct {
	mkdir    func(path string) error
	replace  func(path string, data []byte) error // synced before it takes the name
	put      func(path string, data []byte) error // for what is durable elsewhere
	rename   func(from, to string) error
	remove   func(path string) error
	syncDir  func(path string) error
	syncFile func(path string) error
	syncData func(*os.File) error // what was written over what the file held; its new length too
	syncAll  func(*os.File) error // all of the file system that holds the file
	boot     func() string        // what changes when the machine goes down; empty: not known
}

func realDisk() disk {
	return disk{
		mkdir:    func(path string) error { return os.Mkdir(path, 0o700) },
		replace:  func(path string, data []byte) error { return replaceFile(path, data, (*os.File).Sync) },
		put:      putFile,
		rename:   os.Rename,
		remove:   os.Remove,
		syncDir:  syncDir,
		syncFile: syncFile,
		syncData: syncData,
		syncAll:  syncAll,
		boot:     bootID,
	}
}

// openFile is os.OpenFile for files and directories alone. That one makes sure
// that it can wait for pipes and terminals too, in five more system calls, and
// a run opens several files for each node.
func openFile(path string, flags int) (*os.File, error) {
	var fd int
	err := retried(func() (err error) {
		fd, err = unix.Open(path, flags|unix.O_CLOEXEC, 0o600)
		return err
	})
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

// retried makes a system call again as long as signals interrupt it.
func retried(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// replaceFile keeps the temporary file in the same directory: /tmp may be
// another file system.
func replaceFile(path string, data []byte, sync func(*os.File) error) error {
	dir, name := filepath.Split(path)
	temporary := dir + "." + name + strconv.FormatUint(rand.Uint64(), 10)
	file, err := openFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL)
	if err != nil {
		return named.Path(err, path)
	}
	_, err = file.Write(data)
	if err == nil {
		err = sync(file)
	}
	if closed := file.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(temporary, path)
	}
	if err != nil {
		_ = os.Remove(temporary)
	}
	return named.Path(err, path)
}

// putFile replaces what is in the file without flushing anything. Writing over
// what is there spares making a file, removing one and changing the directory.
func putFile(path string, data []byte) error {
	if writeOver(path, data) {
		return nil
	}
	return replaceFile(path, data, func(*os.File) error { return nil })
}

// maxWriteOver is the size in bytes up to which writing is not interrupted in
// the middle, even by a kill: it is within one page.
const maxWriteOver = 4 << 10

// writeOver reports whether data is in the file now, with blank lines up to its
// old length behind. It is not when there is no such file or somebody reads it.
func writeOver(path string, data []byte) bool {
	file, err := openFile(path, os.O_RDWR|unix.O_NOFOLLOW)
	if err != nil {
		return false
	}
	defer unlock(file)
	if flock(file, unix.LOCK_EX) != nil {
		return false
	}
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() || max(int(info.Size()), len(data)) > maxWriteOver {
		return false
	}
	text := bytes.Clone(data)
	for len(text) < int(info.Size()) {
		text = append(text, '\n')
	}
	_, err = file.WriteAt(text, 0)
	return err == nil
}

// awaitWriter returns when nobody writes over the open file, and keeps it so
// until the file is closed. A writer that was stopped in the middle is not
// waited for without end: what is there is as good as it gets.
func awaitWriter(file *os.File) {
	for range 1000 {
		if !errors.Is(flock(file, unix.LOCK_SH), unix.EWOULDBLOCK) {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

func syncDir(path string) error {
	dir, err := openFile(path, os.O_RDONLY)
	if err != nil {
		return err
	}
	defer dir.Close()
	err = dir.Sync()
	if errors.Is(err, syscall.EINVAL) { // this file system needs no flush of a directory, or has none
		return nil
	}
	return err
}

func syncFile(path string) error {
	file, err := openFile(path, os.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return err
	}
	defer file.Close()
	return file.Sync()
}

// ensureDir makes dir and what is missing above it, each name durable.
func (d disk) ensureDir(dir string) error {
	info, err := os.Stat(dir)
	switch {
	case err == nil && !info.IsDir():
		return &fs.PathError{Op: "mkdir", Path: dir, Err: syscall.ENOTDIR}
	case err == nil:
		return nil
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	parent := filepath.Dir(dir)
	if err := d.ensureDir(parent); err != nil {
		return err
	}
	if err := d.mkdir(dir); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return d.syncDir(parent)
}

// probeSize is what CheckWritable wants to be free: the directory, lock and
// record of several nodes.
const probeSize = 64 << 10

// CheckWritable finds out whether records can be written, by writing: it makes
// the directories and writes and removes a file of 64 KiB. The error is
// ErrUnwritable and names the path; a full disk, a read-only one and missing
// permissions all show here, before any node was touched.
func (s *Store) CheckWritable() error {
	if err := s.catchUp(); err != nil {
		return err
	}
	nodes := s.nodesDir()
	if err := s.disk.ensureDir(nodes); err != nil {
		return unwritable(err)
	}
	if err := s.disk.syncDir(s.dir); err != nil { // a killed process may have left the name nodes unflushed
		return unwritable(err)
	}
	probe := filepath.Join(nodes, ".probe")
	if err := s.disk.replace(probe, make([]byte, probeSize)); err != nil {
		return unwritable(err)
	}
	// Another process may be at the same point and have removed it already.
	if err := s.disk.remove(probe); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return unwritable(err)
	}
	return nil
}
