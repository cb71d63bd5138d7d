package installstate

import (
	"cmp"
	"database/sql"
	"errors"
	"fmt"
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
