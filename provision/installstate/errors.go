package installstate

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/kballard/go-shellquote"
	"golang.org/x/sys/unix"
	driver "modernc.org/sqlite"
	result "modernc.org/sqlite/lib"
)

// The causes that a caller treats differently.
var (
	// ErrNotFound: there is no record of the node.
	ErrNotFound = errors.New("there is no record of this node")
	// ErrLockHeld: a process works on it now. *LockHeld names the process.
	ErrLockHeld = errors.New("another process is at work")
	// ErrInstallationInProgress: the node is in mid-installation or mid-reset,
	// whether or not a process works on it; ordinary lifecycle work has to wait.
	ErrInstallationInProgress = errors.New("the node's installation is not complete")
	// ErrOtherInstallation: the record belongs to another installation.
	ErrOtherInstallation = errors.New("the record belongs to another installation")
	// ErrResetting: a reset started and did not finish.
	ErrResetting = errors.New("a reset of this node was not finished")
	// ErrUnusable: one record cannot be understood.
	ErrUnusable = errors.New("the record cannot be used")
	// ErrClaimLost: another session took the node over.
	ErrClaimLost = errors.New("the claim on the node was lost")
	// ErrPauseFlag: the pause flag is there and cannot be understood.
	ErrPauseFlag = errors.New("the pause flag cannot be read")

	// ErrUnavailable: the state as a whole cannot be read or written now. The
	// cause is the machine's or the user's (no space, too many open files, no
	// permission, a database that stays busy) and says nothing about a record.
	ErrUnavailable = errors.New("the state cannot be used")
	// ErrDamaged: the database is not one of ours or is damaged. It is kept.
	ErrDamaged = errors.New("the state database cannot be used")
	// ErrOldState: the directory has the form of an unreleased version.
	ErrOldState = errors.New("the state directory has an older form")
)

// RecordError is a record that forbids what was asked. It unwraps to its
// causes; the message names the first.
type RecordError struct {
	Identity string
	Detail   string // what is wrong with the record
	Hint     string // the command that helps
	causes   []error
}

func (e *RecordError) Error() string {
	return fmt.Sprintf("%s: %v: %s; %s", quote(e.Identity), e.causes[0], e.Detail, e.Hint)
}

// Unwrap returns the causes.
func (e *RecordError) Unwrap() []error { return e.causes }

// forbidden returns a *RecordError; hint takes the command that resets the node.
func forbidden(identity, detail, hint string, causes ...error) error {
	return &RecordError{Identity: identity, Detail: detail, Hint: fmt.Sprintf(hint, ResetCommand(identity)), causes: causes}
}

func unusable(identity string, err error) error {
	return forbidden(identity, err.Error(), "it is kept as it is; `%s` forgets it", ErrUnusable, err)
}

func otherInstallation(r Record, detail string) error {
	return forbidden(r.Identity, detail, "`%s` frees the node for this one", ErrOtherInstallation)
}

// unfinishedReset names another cause before ErrResetting if there is one.
func unfinishedReset(r Record, causes ...error) error {
	return forbidden(r.Identity, "it is "+string(Resetting), "`%s` finishes it", append(causes, ErrResetting)...)
}

func inProgress(r Record) error {
	if r.Phase == Resetting {
		return unfinishedReset(r, ErrInstallationInProgress)
	}
	return forbidden(r.Identity, "it is "+string(r.Phase), "let the next run finish it, or give it up with `%s`", ErrInstallationInProgress)
}

// Holder is the process that holds a lock or a claim.
type Holder struct {
	PID   int       `json:"pid"`            // 0: not known
	Host  string    `json:"host,omitempty"` // empty: this host
	Since time.Time `json:"started"`        // when its session or run started, UTC
}

func (h Holder) String() string {
	if h.PID == 0 {
		return "it did not say which"
	}
	on := ""
	if h.Host != "" {
		on = " on " + h.Host
	}
	return fmt.Sprintf("process %d%s, started %s", h.PID, on, h.Since.Format(time.RFC3339))
}

// LockHeld is an attempt to take a lock or a claim that a living process holds.
// It unwraps to ErrLockHeld.
type LockHeld struct {
	What   string // the identity, or "a run"
	Holder Holder
}

func (e *LockHeld) Error() string {
	return fmt.Sprintf("%s: %v: %s; try again when it is done", e.What, ErrLockHeld, e.Holder)
}

// Unwrap returns ErrLockHeld.
func (e *LockHeld) Unwrap() error { return ErrLockHeld }

// ResetCommand returns the command line that forgets the node's record, fit to
// be pasted into a shell unless the identity holds control characters.
func ResetCommand(identity string) string {
	if quote(identity) != identity {
		return "provision reset " + strconv.Quote(identity)
	}
	return "provision reset " + shellquote.Join(identity)
}

// quote shows an identity, which may come from anywhere, without control
// characters.
func quote(identity string) string {
	if identity == "" || strings.ContainsFunc(identity, func(r rune) bool { return !unicode.IsPrint(r) || r == unicode.ReplacementChar }) {
		return strconv.Quote(identity)
	}
	return identity
}

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
