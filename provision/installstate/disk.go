package installstate

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"choria-provision/internal/named"

	"golang.org/x/sys/unix"
)

// disk is what touches the file system for good; tests let single ones fail.
type disk struct {
	mkdir   func(path string) error
	replace func(path string, data []byte) error // synced before it takes the name
	rename  func(from, to string) error
	remove  func(path string) error
	syncDir func(path string) error
}

func realDisk() disk {
	return disk{
		mkdir:   func(path string) error { return os.Mkdir(path, 0o700) },
		replace: replaceFile,
		rename:  os.Rename,
		remove:  os.Remove,
		syncDir: syncDir,
	}
}

// openFile is os.OpenFile for files and directories alone. That one makes sure
// that it can wait for pipes and terminals too, in five more system calls, and
// a run opens several files for each node.
func openFile(path string, flags int) (*os.File, error) {
	for {
		fd, err := unix.Open(path, flags|unix.O_CLOEXEC, 0o600)
		switch {
		case err == nil:
			return os.NewFile(uintptr(fd), path), nil
		case !errors.Is(err, unix.EINTR):
			return nil, &fs.PathError{Op: "open", Path: path, Err: err}
		}
	}
}

// replaceFile keeps the temporary file in the same directory: /tmp may be
// another file system.
func replaceFile(path string, data []byte) error {
	dir, name := filepath.Split(path)
	temporary := dir + "." + name + strconv.FormatUint(rand.Uint64(), 10)
	file, err := openFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL)
	if err != nil {
		return named.Path(err, path)
	}
	_, err = file.Write(data)
	if err == nil {
		err = file.Sync()
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
