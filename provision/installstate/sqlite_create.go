package installstate

import (
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

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
	root, err := os.OpenRoot(dir)
	if err != nil {
		return
	}
	defer root.Close()
	if _, err := root.Lstat(DatabaseFile); err != nil {
		return
	}
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return
	}
	for _, entry := range entries {
		if name := entry.Name(); strings.HasPrefix(name, newPrefix) || strings.HasPrefix(name, probePrefix) {
			_ = root.RemoveAll(name)
		}
	}
}

// createDatabase makes the database under another name and links it to its own,
// so that no process ever sees half of one. When another process was faster its
// database stays.
func createDatabase(dir, path string) error {
	made, err := os.MkdirTemp(dir, newPrefix)
	if err != nil {
		return unavailable(dir, err)
	}
	temporary := filepath.Join(made, DatabaseFile)
	if err = makeDatabase(dir, temporary); err == nil {
		err = os.Link(temporary, path)
	}
	err = explain(path, err)
	removed := os.RemoveAll(made)
	if _, missing := os.Lstat(path); missing != nil {
		if err == nil {
			err = unavailable(path, missing)
		}
		return err
	}
	// It is there. If not from here, another process was faster, and may have
	// removed what was made here.
	if removed != nil {
		return unavailable(made, removed)
	}
	return syncDirectory(dir)
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
	if err != nil {
		return unavailable(dir, err)
	}
	defer opened.Close()
	if err := opened.Sync(); err != nil {
		return unavailable(dir, err)
	}
	return nil
}
