package installstate

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"time"
)

// sqlite is the embedded engine: a database in the state directory. It is opened
// at the first use and created at the first write.
type sqlite struct {
	dir string

	mu     sync.Mutex
	db     *database    // nil: not open
	own    *fileSession // nil: none yet
	closed bool
}

func newSQLite(dir string) *sqlite { return &sqlite{dir: dir} }

// change is one compare-and-set and what came of it.
type change struct {
	durable   bool
	statement string
	arguments []any
	done      chan struct{} // closed when err is known
	err       error
}

// open returns the database. With create false a missing one is fs.ErrNotExist.
func (e *sqlite) open(create bool) (*database, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.db != nil {
		return e.db, nil
	}
	if e.closed {
		return nil, errors.Join(ErrUnavailable, sql.ErrConnDone)
	}
	db, err := openDatabase(e.dir, create)
	if err == nil {
		e.db = db
	}
	return db, err
}

func (e *sqlite) read(identity string) (r row, err error) {
	err = e.query(func(db *database) error {
		return db.readRow.QueryRow(identity).Scan((*blob)(&r.record), &r.session, &r.pending, &r.revision)
	})
	return r, err
}

func (e *sqlite) value(name string) (v value, err error) {
	err = e.query(func(db *database) error {
		return db.readValue.QueryRow(name).Scan((*blob)(&v.data), &v.revision)
	})
	return v, err
}

// blob reads bytes and tells none from NULL, which is nil.
type blob []byte

// Scan implements sql.Scanner.
func (b *blob) Scan(source any) error {
	switch data := source.(type) {
	case nil:
		*b = nil
	case []byte:
		*b = append([]byte{}, data...)
	case string: // written by another program
		*b = []byte(data)
	default:
		return fmt.Errorf("a column holds %T, not bytes", source)
	}
	return nil
}

// query runs a read. Without a database or a row it finds nothing, which is no
// error.
func (e *sqlite) query(read func(*database) error) error {
	db, err := e.open(false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := db.inPlace(); err != nil {
		return err
	}
	if err := read(db); !errors.Is(err, sql.ErrNoRows) {
		return explain(db.path, err)
	}
	return nil
}

func (e *sqlite) each(pendingOnly bool, visit func(string, row) error) error {
	var visitErr error
	err := e.query(func(db *database) error {
		statement := listAll
		if pendingOnly {
			statement = listPending
		}
		rows, err := db.readers.Query(statement)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() && visitErr == nil {
			var identity string
			var r row
			if err := rows.Scan(&identity, (*blob)(&r.record), &r.session, &r.pending, &r.revision); err != nil {
				return err
			}
			visitErr = visit(identity, r)
		}
		return rows.Err()
	})
	return errors.Join(visitErr, err)
}

// write draws revisions at random: a row that was removed and made again is
// another one.
func (e *sqlite) write(identity string, next row, durable bool) (uint64, error) {
	revision := newRevision()
	switch {
	case next.record == nil && next.session == "":
		return 0, e.do(durable, removeRow, identity, next.revision)
	case next.revision == 0:
		return revision, e.do(durable, insertRow, identity, next.record, next.session, next.pending, revision)
	default:
		return revision, e.do(durable, updateRow, next.record, next.session, next.pending, revision, identity, next.revision)
	}
}

func (e *sqlite) setValue(name string, next value) error {
	switch {
	case next.data == nil:
		return e.do(true, removeValue, name, next.revision)
	case next.revision == 0:
		return e.do(true, insertValue, name, next.data, newRevision())
	default:
		return e.do(true, updateValue, next.data, newRevision(), name, next.revision)
	}
}

func newRevision() uint64 { return rand.Uint64N(1<<63-1) + 1 }

// do has a statement executed that changes one row, and returns errConflict if
// there is none.
func (e *sqlite) do(durable bool, statement string, arguments ...any) error {
	db, err := e.open(true)
	if err != nil {
		return err
	}
	c := &change{durable: durable, statement: statement, arguments: arguments, done: make(chan struct{})}
	select {
	case db.changes <- c:
		<-c.done
		return c.err
	case <-db.closing:
		return errors.Join(ErrUnavailable, sql.ErrConnDone)
	}
}

func (e *sqlite) session(bool) (string, error) {
	if _, err := e.open(true); err != nil {
		return "", err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.own == nil {
		own, err := startSession(e.dir)
		if err != nil {
			return "", err
		}
		e.own = own
	}
	return e.own.id, nil
}

func (e *sqlite) holder(session string, _ bool) (Holder, bool, error) {
	return sessionHolder(e.dir, session)
}

// prefetch returns nil: a read takes no longer than one of a whole table.
func (e *sqlite) prefetch(int) (map[string]row, error) { return nil, nil }

func (e *sqlite) values(name string) ([]value, error) {
	stored, err := e.value(name)
	if err != nil || stored.data == nil {
		return nil, err
	}
	return []value{stored}, nil
}

// deadline is zero: the kernel ends the session with the process.
func (e *sqlite) deadline() time.Time { return time.Time{} }

func (e *sqlite) close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = true
	if e.own != nil {
		e.own.end()
		e.own = nil
	}
	if e.db == nil {
		return nil
	}
	err := e.db.close()
	e.db = nil
	return err
}

// database is an open state.db.
type database struct {
	path      string
	file      fs.FileInfo // what was at path when it was opened
	readers   *sql.DB
	readRow   *sql.Stmt
	readValue *sql.Stmt

	durable, quick *writer
	changes        chan *change
	closing        chan struct{}
	closed         sync.WaitGroup
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
	readRow     = `SELECT record, session, pending, revision FROM nodes WHERE identity = ?`
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
