package fake

import (
	"database/sql"
	"path/filepath"

	"choria-provision/provision/installstate"
)

// PlantRecord puts text, which may be no record at all, where the record of the
// identity is in the embedded state in dir. The state must exist.
func PlantRecord(dir, identity string, text []byte) error {
	return withState(dir, func(db *sql.DB) error {
		_, err := db.Exec(`INSERT OR REPLACE INTO nodes (identity, record, session, pending, revision) VALUES (?, ?, '', 1, 1)`, identity, text)
		return err
	})
}

// StoredRecord returns the text of the identity's record as it is stored.
func StoredRecord(dir, identity string) (text []byte, err error) {
	err = withState(dir, func(db *sql.DB) error {
		return db.QueryRow(`SELECT record FROM nodes WHERE identity = ?`, identity).Scan(&text)
	})
	return text, err
}

func withState(dir string, do func(*sql.DB) error) error {
	db, err := sql.Open("sqlite", filepath.Join(dir, installstate.DatabaseFile))
	if err != nil {
		return err
	}
	defer db.Close()
	return do(db)
}
