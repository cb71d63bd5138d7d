package installstate

import (
	"cmp"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// DatabaseFile is the name of the embedded state in the state directory. SQLite
// keeps two more files beside it while it is in use.
const DatabaseFile = "state.db"

const (
	applicationID = 0x50525653 // "PRVS": tells this database from any other
	schemaVersion = 1

	busyTimeout = 10_000 // milliseconds that a connection waits for other processes
)

// oldForm lists what the state directory of an unreleased version holds.
var oldForm = [...]string{"nodes", "journal", "paused.json", "counters.json", "lease.json"}

// openDatabase opens the database in dir. With create it makes what is missing,
// else a missing database is fs.ErrNotExist.
func openDatabase(dir string, create bool) (db *database, err error) {
	check := checkDirectory
	if create {
		check = ensureDirectory
	}
	if err := check(dir); err != nil {
		return nil, err
	}
	path, err := filepath.Abs(filepath.Join(dir, DatabaseFile))
	if err != nil {
		return nil, unavailable(dir, err)
	}
	err = awaitHandover(func() (err error) {
		if err = ensureDatabase(dir, path, create); err == nil {
			db, err = connectDatabase(path)
		}
		return err
	})
	return db, err
}

// ensureDatabase checks the file, and with create makes it if it is missing.
func ensureDatabase(dir, path string, create bool) error {
	if err := checkDatabaseFile(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := errors.Join(checkOldForm(dir), checkOrphans(path)); err != nil {
		return err
	}
	if !create {
		return fs.ErrNotExist
	}
	return createDatabase(dir, path)
}

// checkDatabaseFile looks at the database and the files that SQLite keeps beside
// it before SQLite does, which would follow links, make an empty file a database
// and blame the database for the files beside it.
func checkDatabaseFile(path string) error {
	directory, err := os.Stat(filepath.Dir(path))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return unavailable(path, err)
	}
	for _, name := range [...]string{path, path + "-wal", path + "-shm"} {
		info, err := os.Lstat(name)
		if errors.Is(err, fs.ErrNotExist) && name != path {
			continue
		}
		if err := checkForm(path, name, info, err); err != nil {
			return err
		}
		if err := checkAccess(name, info, directory); err != nil {
			if _, gone := os.Lstat(name); !errors.Is(gone, fs.ErrNotExist) { // else the last process has closed the database
				return err
			}
		}
	}
	return nil
}

// checkForm judges what Lstat found under the name of the database or of a file
// beside it.
func checkForm(path, name string, info fs.FileInfo, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return err
	case err != nil:
		return unavailable(name, err)
	case name == path && !info.Mode().IsRegular():
		return damaged(path, "it is not a regular file")
	case name == path && info.Size() == 0:
		return damaged(path, "it is empty")
	case !info.Mode().IsRegular():
		return fmt.Errorf("%w: %s is not a regular file; move it away", ErrUnavailable, name)
	}
	return nil
}

func checkOldForm(dir string) error {
	var found []string
	for _, name := range oldForm {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			found = append(found, name)
		}
	}
	if len(found) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s holds %s of an unreleased version, which this one does not read; move them away", ErrOldState, dir, strings.Join(found, ", "))
}

// checkOrphans refuses to begin beside the log of a database that is gone: SQLite
// would play it into the new one.
func checkOrphans(path string) error {
	for _, log := range [...]string{path + "-wal", path + "-journal"} {
		if _, err := os.Lstat(log); err != nil {
			continue
		}
		if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) { // else another process has just made it
			return fmt.Errorf("%w: %s belongs to a database that is not there any more; put that back as %s, or move the log away, too",
				ErrDamaged, log, path)
		}
	}
	return nil
}

const schema = `
CREATE TABLE nodes (
	identity TEXT PRIMARY KEY,
	record   BLOB,
	session  TEXT NOT NULL,
	pending  INTEGER NOT NULL,
	revision INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX pending_nodes ON nodes (identity) WHERE pending;
CREATE TABLE stored_values (
	name     TEXT PRIMARY KEY,
	data     BLOB NOT NULL,
	revision INTEGER NOT NULL
) WITHOUT ROWID;`

// What this program makes in the state directory for a moment.
const (
	newPrefix   = ".new-state-"
	probePrefix = ".probe-"
)

// removeLeftovers removes what processes that were killed left of that, once
// there is a database: until then one may be in the making.
func removeLeftovers(dir string) {
	if _, err := os.Lstat(filepath.Join(dir, DatabaseFile)); err != nil {
		return
	}
	eachFile(dir, ".", func(state *os.Root, name string) {
		if strings.HasPrefix(name, newPrefix) || strings.HasPrefix(name, probePrefix) {
			_ = state.RemoveAll(name)
		}
	})
}

// createDatabase makes the database under another name and links it to its own,
// so that no process ever sees half of one. When another process was faster its
// database stays.
func createDatabase(dir, path string) error {
	made, err := os.MkdirTemp(dir, newPrefix)
	if err != nil {
		return unavailable(dir, err)
	}
	defer os.RemoveAll(made) // what stays is a leftover of the next run
	temporary := filepath.Join(made, DatabaseFile)
	if err = makeDatabase(dir, temporary); err == nil {
		err = os.Link(temporary, path)
	}
	if _, missing := os.Lstat(path); missing != nil {
		return cmp.Or(explain(path, err), unavailable(path, missing))
	}
	return syncDirectory(dir) // not from here, if another process was faster
}

func makeDatabase(dir, path string) error {
	owner, err := os.Stat(dir)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, fileMode(owner))
	if err != nil {
		return err
	}
	err = adopt(file, owner)
	file.Close()
	if err != nil {
		return err
	}
	db, err := sql.Open("sqlite", dataSource(path, "FULL"))
	if err != nil {
		return err
	}
	_, err = db.Exec(fmt.Sprintf("PRAGMA journal_mode = WAL; PRAGMA application_id = %d; PRAGMA user_version = %d; %s", applicationID, schemaVersion, schema))
	return errors.Join(err, db.Close())
}

// syncDirectory makes a new name in dir durable.
func syncDirectory(dir string) error {
	opened, err := os.Open(dir)
	if err == nil {
		defer opened.Close()
		err = opened.Sync()
	}
	return unavailable(dir, err)
}
