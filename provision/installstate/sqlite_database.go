package installstate

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"slices"
	"sync"
)

// database is an open state.db.
type database struct {
	path    string
	file    fs.FileInfo // what was at path when it was opened
	readers *sql.DB
	reads   map[string]*sql.Stmt // of readers

	durable, quick *writer
	changes        chan *change
	closing        chan struct{}
	closed         sync.WaitGroup
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
	d := &database{path: path, changes: make(chan *change), closing: make(chan struct{}), reads: map[string]*sql.Stmt{}}
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
	for _, statement := range [...]string{readRow, readValue, listAll, listPending} {
		if d.reads[statement], err = d.readers.Prepare(statement); err != nil {
			return err
		}
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

// inPlace refuses to go on with a database that is not the one at its path any
// more: what is stored there no other process would see.
func (d *database) inPlace() error {
	now, err := os.Lstat(d.path)
	switch {
	case err == nil && os.SameFile(d.file, now):
		return nil
	case err == nil || errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: %s was moved away or replaced while this process (%d) used it; start it again", ErrUnavailable, d.path, os.Getpid())
	default:
		return unavailable(d.path, err)
	}
}

// change is one compare-and-set and what came of it.
type change struct {
	durable   bool
	statement string
	arguments []any
	done      chan struct{} // closed when err is known
	err       error
}

// serve commits changes until the database is closed: one commit for all whose
// callers wait while the one before is under way.
func (d *database) serve() {
	for {
		select {
		case c := <-d.changes:
			d.commit(d.gather(c))
		case <-d.closing:
			return
		}
	}
}

func (d *database) gather(first *change) []*change {
	batch := []*change{first}
	for {
		select {
		case c := <-d.changes:
			batch = append(batch, c)
		default:
			return batch
		}
	}
}

func (d *database) commit(batch []*change) {
	err := explain(d.path, d.transaction(batch))
	for _, c := range batch {
		if err != nil { // a change whose revision is outdated failed alone
			c.err = err
		}
		close(c.done)
	}
}

// writer is the one connection for writes of one durability. In WAL mode a
// commit under `synchronous=FULL` is on disk when it returns, with all commits
// before it; one under NORMAL survives the end of the process alone.
type writer struct {
	db       *sql.DB
	conn     *sql.Conn
	prepared map[string]*sql.Stmt
}

const (
	readRow     = `SELECT identity, record, session, pending, revision FROM nodes WHERE identity = ?`
	readValue   = `SELECT data, revision FROM stored_values WHERE name = ?`
	listAll     = `SELECT identity, record, session, pending, revision FROM nodes ORDER BY identity`
	listPending = `SELECT identity, record, session, pending, revision FROM nodes WHERE pending ORDER BY identity`

	insertRow   = `INSERT INTO nodes (identity, record, session, pending, revision) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`
	updateRow   = `UPDATE nodes SET record = ?, session = ?, pending = ?, revision = ? WHERE identity = ? AND revision = ?`
	removeRow   = `DELETE FROM nodes WHERE identity = ? AND revision = ?`
	insertValue = `INSERT INTO stored_values (name, data, revision) VALUES (?, ?, ?) ON CONFLICT DO NOTHING`
	updateValue = `UPDATE stored_values SET data = ?, revision = ? WHERE name = ? AND revision = ?`
	removeValue = `DELETE FROM stored_values WHERE name = ? AND revision = ?`
)

// run executes a statement, which is prepared once.
func (w *writer) run(statement string, arguments ...any) (sql.Result, error) {
	prepared := w.prepared[statement]
	if prepared == nil {
		var err error
		if prepared, err = w.conn.PrepareContext(context.Background(), statement); err != nil {
			return nil, err
		}
		w.prepared[statement] = prepared
	}
	return prepared.Exec(arguments...)
}

// transaction makes the changes in the order they came.
func (d *database) transaction(changes []*change) error {
	w := d.quick
	if slices.ContainsFunc(changes, func(c *change) bool { return c.durable }) {
		w = d.durable
	}
	if _, err := w.run(`BEGIN IMMEDIATE`); err != nil {
		return err
	}
	err := w.apply(changes)
	if err == nil {
		err = d.inPlace()
	}
	if err == nil {
		_, err = w.run(`COMMIT`)
	}
	if err != nil {
		_, _ = w.run(`ROLLBACK`) // SQLite may have rolled back itself
	}
	return err
}

func (w *writer) apply(changes []*change) error {
	for _, c := range changes {
		result, err := w.run(c.statement, c.arguments...)
		if err != nil {
			return err
		}
		if changed, err := result.RowsAffected(); err != nil {
			return err
		} else if changed == 0 {
			c.err = errConflict
		}
	}
	return nil
}
