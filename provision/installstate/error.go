package installstate

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"github.com/kballard/go-shellquote"
)

// The causes a caller treats differently.
var (
	// ErrNotFound: there is no record of the machine.
	ErrNotFound = errors.New("there is no record of this machine")
	// ErrLockHeld: a process is at work now. *LockHeld says which.
	ErrLockHeld = errors.New("another process is at work")
	// ErrInstallationInProgress: the machine is in mid-installation or mid-reset,
	// whether or not anybody acts; ordinary lifecycle work has to wait.
	ErrInstallationInProgress = errors.New("the machine's installation is not complete")
	// ErrOtherInstallation: the record belongs to another installation.
	ErrOtherInstallation = errors.New("the record belongs to another installation")
	// ErrResetting: a reset started and did not finish.
	ErrResetting = errors.New("a reset of this machine was not finished")
	// ErrUnusable: the record cannot be read or understood.
	ErrUnusable = errors.New("the record cannot be used")
	// ErrUnwritable: the state directory cannot be written or is full.
	ErrUnwritable = errors.New("the state directory cannot be written")
)

// RecordError is a record that forbids what was asked. It unwraps to its
// causes, of which the first is the one it speaks of.
type RecordError struct {
	Machine string
	File    string // of the record
	Detail  string // what is wrong with it
	Advice  string // the command that helps
	causes  []error
}

func (e *RecordError) Error() string {
	return fmt.Sprintf("%s: %v: %s: %s; %s", quote(e.Machine), e.causes[0], e.File, e.Detail, e.Advice)
}

// Unwrap returns the causes.
func (e *RecordError) Unwrap() []error { return e.causes }

func unusable(machine, file string, err error) error {
	return &RecordError{
		Machine: machine, File: file, Detail: err.Error(), causes: []error{ErrUnusable, err},
		Advice: fmt.Sprintf("the file is kept as it is; look at it, then `%s` forgets it", ResetCommand(machine)),
	}
}

func (s *Store) otherInstallation(r Record, detail string) error {
	return &RecordError{
		Machine: r.MachineName, File: s.RecordPath(r.MachineName), Detail: detail, causes: []error{ErrOtherInstallation},
		Advice: fmt.Sprintf("`%s` frees the machine for this one", ResetCommand(r.MachineName)),
	}
}

func (s *Store) resetting(r Record) error {
	return &RecordError{
		Machine: r.MachineName, File: s.RecordPath(r.MachineName), Detail: "it is " + string(Resetting), causes: []error{ErrResetting},
		Advice: fmt.Sprintf("`%s` finishes it", ResetCommand(r.MachineName)),
	}
}

func (s *Store) inProgress(r Record) error {
	e := &RecordError{
		Machine: r.MachineName, File: s.RecordPath(r.MachineName), Detail: "it is " + string(r.Phase), causes: []error{ErrInstallationInProgress},
		Advice: fmt.Sprintf("let the next run finish it, or give it up with `%s`", ResetCommand(r.MachineName)),
	}
	if r.Phase == Resetting {
		e.causes = append(e.causes, ErrResetting)
		e.Advice = fmt.Sprintf("`%s` finishes it", ResetCommand(r.MachineName))
	}
	return e
}

// unwritable takes the errors of the standard library: they name the path.
func unwritable(err error) error {
	if errors.Is(err, ErrUnwritable) {
		return err
	}
	return fmt.Errorf("%w: %w; make room or mend its permissions", ErrUnwritable, err)
}

// ResetCommand returns the command line that forgets the machine's record, fit
// to be pasted into a shell unless the name holds control characters.
func ResetCommand(machine string) string {
	if quote(machine) != machine {
		return "provision reset " + strconv.Quote(machine)
	}
	return "provision reset " + shellquote.Join(machine)
}

// quote shows a name, which may come from anywhere, without control characters.
func quote(name string) string {
	if name == "" || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) || r == unicode.ReplacementChar }) {
		return strconv.Quote(name)
	}
	return name
}
