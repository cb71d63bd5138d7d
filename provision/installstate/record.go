package installstate

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"
)

// SchemaVersion is the version of the record's form that this program writes
// and the only one it reads.
const SchemaVersion = 1

// maxRecordSize is the largest record that is read, in bytes; one with the
// longest identity takes less than 1 KiB.
const maxRecordSize = 64 << 10

// Phase is the mode of an installation; it never says which step was reached.
type Phase string

// The phases of a record.
const (
	Installing Phase = "installing" // in progress, whether or not a process works on it
	Complete   Phase = "complete"   // finished
	Resetting  Phase = "resetting"  // a teardown started and may not have finished
)

// Record is the durable state of one node's installation. It holds no secret.
// Times are UTC.
type Record struct {
	SchemaVersion  int       `json:"schema_version"`
	InstallationID string    `json:"installation_id"`                    // one per installation, kept over resumes
	PreviousID     string    `json:"previous_installation_id,omitempty"` // of the complete installation before this one
	Identity       string    `json:"machine_name"`
	Fingerprint    string    `json:"fingerprint"` // see Fingerprint
	Phase          Phase     `json:"phase"`
	Created        time.Time `json:"created"` // start of the installation
	Updated        time.Time `json:"updated"` // set by each write
	Completed      time.Time `json:"completed,omitzero"`
	HoldUntil      time.Time `json:"hold_until,omitzero"` // leave the node alone until then

	// RestartRequested is when the configured node was about to be asked for its
	// restart. It does not say that the request arrived: only that nothing is
	// left to do once the node has left provisioning.
	RestartRequested time.Time `json:"restart_requested,omitzero"`

	// ShutDown is when the node accepted a shutdown that the helper asked for.
	// The installation has ended without being complete; it starts again when
	// the node returns.
	ShutDown time.Time `json:"shut_down,omitzero"`
}

// NewRecord returns the record of a new installation: Installing, with an id of
// its own. It is not stored yet.
func NewRecord(identity, fingerprint string) Record {
	return Record{
		SchemaVersion:  SchemaVersion,
		InstallationID: rand.Text(),
		Identity:       identity,
		Fingerprint:    fingerprint,
		Phase:          Installing,
		Created:        time.Now().UTC().Round(0),
	}
}

// Successor returns the record of a new installation of the same node after r
// was complete: the node was sent back, reinstalled, or its restart was lost.
func (r Record) Successor() Record {
	next := NewRecord(r.Identity, r.Fingerprint)
	next.PreviousID = r.InstallationID
	return next
}

// Held reports whether the node is to be left alone at now. A hold that was set
// later than now does not count: the clock was set back by an unknown time.
func (r Record) Held(now time.Time) bool {
	return now.Before(r.HoldUntil) && !now.Before(r.Updated)
}

// Validate reports the first thing that makes the record unusable.
//
//nolint:gocyclo // one flat list of rules, each a case of its own
func (r Record) Validate() error {
	switch {
	case r.SchemaVersion != SchemaVersion:
		return fmt.Errorf("schema version %d is unknown, this program reads version %d", r.SchemaVersion, SchemaVersion)
	case r.InstallationID == "":
		return missing("installation_id")
	case r.Identity == "":
		return missing("machine_name")
	case !utf8.ValidString(r.Identity):
		return fmt.Errorf("machine_name %q is not UTF-8", r.Identity)
	case !isFingerprint(r.Fingerprint):
		return fmt.Errorf("fingerprint %q is not 64 lower case hex digits", r.Fingerprint)
	case r.Phase != Installing && r.Phase != Complete && r.Phase != Resetting:
		return fmt.Errorf("phase %q is unknown", r.Phase)
	case r.Created.IsZero():
		return missing("created")
	case r.Updated.IsZero():
		return missing("updated")
	case r.Phase == Complete && r.Completed.IsZero():
		return missing("completed")
	}
	return nil
}

func missing(field string) error { return fmt.Errorf("%s is missing", field) }

func (r Record) encode() ([]byte, error) {
	if err := r.Validate(); err != nil {
		return nil, fmt.Errorf("the record of %s: %w", quote(r.Identity), err)
	}
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("the record of %s: %w", quote(r.Identity), err)
	}
	return append(data, '\n'), nil
}

// decode reads exactly one record of exactly this form: overwriting a record
// with a field that is unknown here would lose that field.
func decode(data []byte) (Record, error) {
	if err := checkText(data); err != nil {
		return Record{}, err
	}
	var version struct {
		Schema *int `json:"schema_version"`
	}
	if err := json.Unmarshal(data, &version); err != nil {
		return Record{}, err
	}
	if version.Schema == nil {
		return Record{}, missing("schema_version")
	}
	if *version.Schema != SchemaVersion {
		return Record{}, Record{SchemaVersion: *version.Schema}.Validate()
	}
	var record Record
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&record); err != nil {
		return Record{}, err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return Record{}, errors.New("text follows the record")
	}
	return record, record.Validate()
}

func checkText(data []byte) error {
	switch {
	case len(data) == 0:
		return errors.New("it is empty")
	case len(data) > maxRecordSize:
		return fmt.Errorf("it is larger than %d bytes", maxRecordSize)
	case bytes.IndexByte(data, 0) >= 0:
		return errors.New("it holds NUL bytes")
	}
	return nil
}

// ended reports whether the installation is over: complete, or the node was shut
// down on the helper's request.
func (r Record) ended() bool {
	return r.Phase == Complete || r.Phase == Installing && !r.ShutDown.IsZero()
}

// Fingerprint hashes exactly the bytes it is given: SHA-256, in 64 lower case
// hex digits. Give it the canonical JSON of what defines an installation, from
// before short-lived secrets are resolved.
func Fingerprint(canonical []byte) string {
	sum := sha256.Sum256(canonical)
	return hex.EncodeToString(sum[:])
}

func isFingerprint(s string) bool {
	return len(s) == 2*sha256.Size && strings.Trim(s, "0123456789abcdef") == ""
}

// Definition is what makes two installations of one machine the same or not;
// nothing in it rotates. A field that is added later must be omitted at its
// default, or every record written before would change hands.
type Definition struct {
	Site       string `json:"site"`
	Enrollment string `json:"enrollment"`           // how nodes get their credentials
	TrustRoot  string `json:"trust_root,omitempty"` // public: the key or certificate itself, never a path
}

// Canonical returns the definition's one JSON text.
func (d Definition) Canonical() ([]byte, error) {
	data, err := json.Marshal(d)
	if err != nil {
		return nil, fmt.Errorf("the installation's definition: %w", err)
	}
	return data, nil
}
