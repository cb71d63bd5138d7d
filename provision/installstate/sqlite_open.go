package installstate

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
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
		switch {
		case errors.Is(err, fs.ErrNotExist) && name == path:
			return err
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return unavailable(name, err)
		case name == path && !info.Mode().IsRegular():
			return damaged(path, "it is not a regular file")
		case name == path && info.Size() == 0:
			return damaged(path, "it is empty")
		case !info.Mode().IsRegular():
			return fmt.Errorf("%w: %s is not a regular file; move it away", ErrUnavailable, name)
		}
		if err := checkAccess(name, info, directory); err != nil {
			if _, gone := os.Lstat(name); !errors.Is(gone, fs.ErrNotExist) { // else the last process has closed the database
				return err
			}
		}
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

// dataSource names the database for the driver, with the durability of commits
// on its connections.
func dataSource(path, synchronous string) string {
	parameters := url.Values{"_pragma": {fmt.Sprintf("busy_timeout(%d)", busyTimeout), "synchronous(" + synchronous + ")"}}
	return (&url.URL{Scheme: "file", Path: path, RawQuery: parameters.Encode()}).String()
}

// connectDatabase opens the connections. Two writers differ in durability alone;
// serve has one of them at work at a time.
func connectDatabase(path string) (*database, error) {
	d := &database{path: path, changes: make(chan *change), closing: make(chan struct{})}
	var err error
	if d.file, err = os.Lstat(path); err != nil {
		return nil, unavailable(path, err)
	}
	if err := d.connect(); err != nil {
		err = explain(path, err) // while all is open: that may be what is too much
		_ = d.close()
		return nil, err
	}
	d.closed.Go(d.serve)
	return d, nil
}

func (d *database) connect() (err error) {
	if d.readers, err = sql.Open("sqlite", dataSource(d.path, "NORMAL")); err != nil {
		return err
	}
	d.readers.SetMaxOpenConns(1) // a read takes some microseconds, a connection three files
	if err := d.identify(); err != nil {
		return err
	}
	if d.readRow, err = d.readers.Prepare(readRow); err != nil {
		return err
	}
	if d.readValue, err = d.readers.Prepare(readValue); err != nil {
		return err
	}
	if d.durable, err = openWriter(d.path, "FULL"); err != nil {
		return err
	}
	d.quick, err = openWriter(d.path, "NORMAL")
	return err
}

func openWriter(path, synchronous string) (*writer, error) {
	db, err := sql.Open("sqlite", dataSource(path, synchronous))
	if err != nil {
		return nil, err
	}
	conn, err := db.Conn(context.Background())
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &writer{db, conn, map[string]*sql.Stmt{}}, nil
}

// close also closes the statements: those of a single connection are not closed
// with it, and SQLite would not take its last connection for closed.
func (w *writer) close() (err error) {
	for _, prepared := range w.prepared {
		err = errors.Join(err, prepared.Close())
	}
	return errors.Join(err, w.conn.Close(), w.db.Close())
}

// close waits for the commit under way.
func (d *database) close() (err error) {
	close(d.closing)
	d.closed.Wait()
	for _, w := range []*writer{d.quick, d.durable} {
		if w != nil {
			err = errors.Join(err, w.close())
		}
	}
	if d.readers != nil {
		err = errors.Join(err, d.readers.Close())
	}
	return err
}

// identify refuses a database of another program or of a newer version.
func (d *database) identify() error {
	var application, version int
	err := d.readers.QueryRow("SELECT * FROM pragma_application_id, pragma_user_version").Scan(&application, &version)
	switch {
	case err != nil:
		return err
	case application != applicationID:
		return damaged(d.path, "it is a database of another program")
	case version != schemaVersion:
		return damaged(d.path, fmt.Sprintf("its schema version %d is unknown, this program reads version %d", version, schemaVersion))
	}
	return nil
}
