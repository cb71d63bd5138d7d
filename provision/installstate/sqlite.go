package installstate

import (
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
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
	err = e.query(func(rows *sql.Rows) error {
		return rows.Scan(&identity, (*blob)(&r.record), &r.session, &r.pending, &r.revision)
	}, readRow, identity)
	return r, err
}

func (e *sqlite) each(pendingOnly bool, visit func(string, row) error) error {
	statement := listAll
	if pendingOnly {
		statement = listPending
	}
	return e.query(func(rows *sql.Rows) error {
		var identity string
		var r row
		if err := rows.Scan(&identity, (*blob)(&r.record), &r.session, &r.pending, &r.revision); err != nil {
			return err
		}
		return visit(identity, r)
	}, statement)
}

func (e *sqlite) value(name string) (v value, err error) {
	err = e.query(func(rows *sql.Rows) error { return rows.Scan((*blob)(&v.data), &v.revision) }, readValue, name)
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

// query visits what a statement finds, which is nothing without a database.
func (e *sqlite) query(visit func(*sql.Rows) error, statement string, arguments ...any) error {
	db, err := e.open(false)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = db.inPlace()
	}
	if err != nil {
		return err
	}
	rows, err := db.reads[statement].Query(arguments...)
	if err != nil {
		return explain(db.path, err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := visit(rows); err != nil {
			return explain(db.path, err)
		}
	}
	return explain(db.path, rows.Err())
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

// holder takes a session without a file for dead, and one that another program
// wrote.
func (e *sqlite) holder(session string, _ bool) (Holder, bool, error) {
	if !isSession(session) {
		return Holder{}, false, nil
	}
	return lockHolder(filepath.Join(e.dir, sessionsDir, session))
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
