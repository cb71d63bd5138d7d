package installstate

import (
	"errors"
	"fmt"
)

// Disposition says how an installation that may go on relates to what is
// recorded. The zero Disposition comes with a refusal.
type Disposition int

// The dispositions of Admit.
const (
	Fresh           Disposition = iota + 1 // nothing is recorded
	Resume                                 // our own attempt, not finished
	AlreadyComplete                        // our own, finished
)

func (d Disposition) String() string {
	switch d {
	case Fresh:
		return "fresh"
	case Resume:
		return "resume"
	case AlreadyComplete:
		return "complete"
	default:
		return "refused"
	}
}

// Admit decides whether the installation that fingerprint defines may work on
// machine. It writes nothing; the caller holds the machine's lock around it.
// The record is zero when Fresh.
//
// Refused are a record of another installation (ErrOtherInstallation), one that
// is being reset (ErrResetting) and one that cannot be used (ErrUnusable); each
// error names the file and the command that frees the node.
func Admit(store *Store, machine, fingerprint string) (Record, Disposition, error) {
	record, err := store.Load(machine)
	switch {
	case errors.Is(err, ErrNotFound):
		return Record{}, Fresh, nil
	case err != nil:
		return Record{}, 0, err
	case record.Phase == Resetting:
		return record, 0, store.resetting(record)
	case record.Fingerprint != fingerprint:
		return record, 0, store.otherInstallation(record,
			fmt.Sprintf("its site, enrollment model or trust root was another (fingerprint %s, ours is %s)", short(record.Fingerprint), short(fingerprint)))
	case record.Phase == Installing:
		return record, Resume, nil
	default:
		return record, AlreadyComplete, nil
	}
}

func short(fingerprint string) string { return fingerprint[:min(12, len(fingerprint))] }
