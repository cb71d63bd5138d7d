package installstate

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/kballard/go-shellquote"
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

func unusable(identity string, err error) error {
	return &RecordError{
		Identity: identity, Detail: err.Error(), causes: []error{ErrUnusable, err},
		Hint: fmt.Sprintf("it is kept as it is; `%s` forgets it", ResetCommand(identity)),
	}
}

func otherInstallation(r Record, detail string) error {
	return &RecordError{
		Identity: r.Identity, Detail: detail, causes: []error{ErrOtherInstallation},
		Hint: fmt.Sprintf("`%s` frees the node for this one", ResetCommand(r.Identity)),
	}
}

func unfinishedReset(r Record) error {
	return &RecordError{
		Identity: r.Identity, Detail: "it is " + string(Resetting), causes: []error{ErrResetting},
		Hint: fmt.Sprintf("`%s` finishes it", ResetCommand(r.Identity)),
	}
}

func inProgress(r Record) error {
	if r.Phase == Resetting {
		return &RecordError{
			Identity: r.Identity, Detail: "it is " + string(r.Phase), causes: []error{ErrInstallationInProgress, ErrResetting},
			Hint: fmt.Sprintf("`%s` finishes it", ResetCommand(r.Identity)),
		}
	}
	return &RecordError{
		Identity: r.Identity, Detail: "it is " + string(r.Phase), causes: []error{ErrInstallationInProgress},
		Hint: fmt.Sprintf("let the next run finish it, or give it up with `%s`", ResetCommand(r.Identity)),
	}
}

// Holder is the process that holds a lock or a claim.
type Holder struct {
	PID   int       `json:"pid"`            // 0: not known
	Host  string    `json:"host,omitempty"` // empty: this host
	Since time.Time `json:"started"`        // when its session or run started, UTC
}

func (h Holder) String() string {
	switch {
	case h.PID == 0:
		return "it did not say which"
	case h.Host != "":
		return fmt.Sprintf("process %d on %s, started %s", h.PID, h.Host, h.Since.Format(time.RFC3339))
	default:
		return fmt.Sprintf("process %d, started %s", h.PID, h.Since.Format(time.RFC3339))
	}
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
