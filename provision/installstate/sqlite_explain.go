package installstate

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
	driver "modernc.org/sqlite"
	result "modernc.org/sqlite/lib"
)

func (d *database) explain(err error) error { return explain(d.path, err) }

// scanError begins what database/sql says of a column with a value of another
// type than this program writes; there is no error value for it.
const scanError = "sql: Scan error on column"

// explain tells what the machine or the user is to blame for from a database that
// is damaged, and names the file.
func explain(path string, err error) error {
	var failure *driver.Error
	if err == nil || errors.Is(err, ErrDamaged) || errors.Is(err, ErrUnavailable) || errors.Is(err, errConflict) {
		return err
	}
	if strings.HasPrefix(err.Error(), scanError) {
		return damaged(path, err.Error())
	}
	if !errors.As(err, &failure) {
		return unavailable(path, err)
	}
	dir := filepath.Dir(path)
	switch failure.Code() & 0xff {
	case result.SQLITE_CORRUPT, result.SQLITE_NOTADB,
		result.SQLITE_ERROR, result.SQLITE_SCHEMA, result.SQLITE_MISMATCH, result.SQLITE_CONSTRAINT, result.SQLITE_FORMAT: // other tables than ours
		return damaged(path, failure.Error())
	case result.SQLITE_FULL:
		return fmt.Errorf("%w: no space is left for %s; make room", ErrUnavailable, path)
	case result.SQLITE_BUSY, result.SQLITE_LOCKED:
		return fmt.Errorf("%w: another process kept %s locked for more than %d s; see `provision status`", ErrUnavailable, path, busyTimeout/1000)
	case result.SQLITE_READONLY, result.SQLITE_PERM, result.SQLITE_CANTOPEN, result.SQLITE_IOERR:
		if err := probe(dir); err != nil {
			return unavailable(path, err)
		}
		return unavailable(path, failure)
	default:
		return unavailable(path, failure)
	}
}

// connectionFiles is how many files SQLite opens for a connection.
const connectionFiles = 3

// probe repeats what SQLite does in dir, since SQLite does not tell which error
// the system gave. It must not open the database itself: closing it again would
// end SQLite's own locks on the file.
func probe(dir string) error {
	for range connectionFiles {
		file, err := os.Open(dir)
		if err != nil {
			return err
		}
		defer file.Close()
	}
	file, err := os.CreateTemp(dir, probePrefix)
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	if _, err := file.Write(make([]byte, 64<<10)); err != nil {
		file.Close()
		return err
	}
	return file.Close()
}

// unavailable blames the machine for err and says what to do where that is known.
func unavailable(path string, err error) error {
	hint := "; check the file system and the permissions of " + path
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrUnavailable), errors.Is(err, ErrDamaged):
		return err
	case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE):
		hint = "; raise the limit of open files (`ulimit -n`, `LimitNOFILE=`)"
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		hint = "; make room"
	case errors.Is(err, unix.EROFS):
		hint = "" // the error says it all
	}
	return fmt.Errorf("%w: %s: %w%s", ErrUnavailable, path, withoutPath(err), hint)
}

// withoutPath leaves out what the message says already.
//
//nolint:errorlint // what wraps such an error says more, and stays
func withoutPath(err error) error {
	if at, ok := err.(*fs.PathError); ok {
		return at.Err
	}
	if at, ok := err.(*os.LinkError); ok {
		return at.Err
	}
	return err
}

// damaged says what moving the database away loses. Nothing here touches it.
func damaged(path, detail string) error {
	return fmt.Errorf("%w: %s: %s; it is kept: to start without it, move it and its -wal and -shm files away, "+
		"which loses holds, counters, the pause and the knowledge of interrupted nodes, but no node", ErrDamaged, path, detail)
}
