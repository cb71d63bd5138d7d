package installstate

import (
	"errors"
	"fmt"
)

// Disposition relates an installation that may proceed to the stored record. The
// zero Disposition comes with a refusal.
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
// the node. It writes nothing; the caller holds the claim on the node, so that
// the answer stays true. The record is zero when Fresh.
//
// It refuses a record of another installation (ErrOtherInstallation), one that
// is being reset (ErrResetting) and one that cannot be used (ErrUnusable); each
// of these errors names the command that frees the node. Errors of the state
// itself are those of Store.Load.
func Admit(store *Store, identity, fingerprint string) (Record, Disposition, error) {
	record, err := store.Load(identity)
	switch {
	case errors.Is(err, ErrNotFound):
		return Record{}, Fresh, nil
	case err != nil:
		return Record{}, 0, err
	case record.Phase == Resetting:
		return record, 0, unfinishedReset(record)
	case record.Fingerprint != fingerprint:
		return record, 0, otherInstallation(record,
			fmt.Sprintf("its site, enrollment model or trust root was another (fingerprint %s, ours is %s)", short(record.Fingerprint), short(fingerprint)))
	case record.Phase == Installing:
		return record, Resume, nil
	default:
		return record, AlreadyComplete, nil
	}
}

func short(fingerprint string) string { return fingerprint[:min(12, len(fingerprint))] }
