package output

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"choria-provision/provision/installstate"

	"github.com/google/renameio/v2"
)

// LastRunFile is the name of the copy of the last report in the state directory.
// The copy is for scripts: the product reads the report in the state.
const LastRunFile = "last-run.json"

// ErrUnreadableReport means that this version cannot read a stored report.
var ErrUnreadableReport = errors.New("the report of the last run cannot be read")

// SchemaVersion is the version of Document. It rises when a reader of the former
// version would misunderstand the document; new fields do not raise it.
const SchemaVersion = 1

// Document is the report of one run, which `--output json` prints and
// last-run.json holds; docs/report.schema.json is its schema. Durations are in
// seconds. Texts are escaped and bounded.
type Document struct {
	SchemaVersion int       `json:"schema_version"`
	Run           Run       `json:"run"`
	Discovery     Discovery `json:"discovery"`
	Nodes         []Node    `json:"nodes"` // in the order they were done

	// Unresolved are nodes that failed or were deferred in an earlier run and that
	// this run did not work on.
	Unresolved []Node `json:"earlier,omitempty"`

	Totals Totals `json:"totals"`
}

// Run describes the run as a whole. Error, Cause and Hint are those of a run that
// could not start or not finish; the failure of a node is not among them.
type Run struct {
	ID       string    `json:"id"`
	Command  string    `json:"command"` // once, node
	Site     string    `json:"site"`
	Version  string    `json:"version"` // of this program
	Started  time.Time `json:"started"`
	Duration float64   `json:"duration"`
	ExitCode int       `json:"exit_code"`
	DryRun   bool      `json:"dry_run"`
	Error    string    `json:"error,omitempty"`
	Cause    string    `json:"cause,omitempty"`
	Hint     string    `json:"advice,omitempty"`
}

// Discovery counts sightings. Admitted are those of valid identities without a
// duplicate, before --match, --limit and records are applied.
type Discovery struct {
	Answers  int       `json:"answers"`
	Admitted int       `json:"admitted"`
	Refused  []Refusal `json:"refused"`
	Duration float64   `json:"duration"`
}

// Refusal is a sighting that was not admitted.
type Refusal struct {
	Identity string `json:"identity"` // escaped: it may be invalid
	Count    int    `json:"count"`    // machines with this identity
	Cause    string `json:"cause"`
	Error    string `json:"error"`
	Hint     string `json:"advice,omitempty"`
}

// Node is the result of one node. Step is the last step that ran, empty when the
// sequence ran to its end.
type Node struct {
	Identity string     `json:"identity"`
	Outcome  string     `json:"outcome"`
	Step     string     `json:"step,omitempty"`
	Error    string     `json:"error,omitempty"`
	Cause    string     `json:"cause,omitempty"` // an id of the table of causes, or "other"
	Hint     string     `json:"advice,omitempty"`
	Message  string     `json:"message,omitempty"` // the helper's, for deferred and shutdown
	Attempts int        `json:"attempts"`          // of all calls together
	Started  *time.Time `json:"started,omitempty"`
	Duration float64    `json:"duration"`
	Steps    []NodeStep `json:"steps"`             // those that ran, in order
	Version  string     `json:"version,omitempty"` // of choria-server on the node
	Upgrade  string     `json:"upgrade,omitempty"` // the version it was told to install
	Notices  []string   `json:"notices,omitempty"`
	Plan     *Plan      `json:"plan,omitempty"` // dry runs only
}

// NodeStep is one step that ran and how long it took.
type NodeStep struct {
	Step     string  `json:"step"`
	Duration float64 `json:"duration"`
}

// Plan is the result of a dry run: the steps of a real run, what was not checked,
// and with --run-helper the configuration that would be sent, secrets redacted.
type Plan struct {
	Steps         []PlanStep        `json:"steps"`
	Unchecked     []string          `json:"unchecked"`
	Configuration map[string]string `json:"configuration,omitempty"`
}

// PlanStep is a step that a real run would execute.
type PlanStep struct {
	Step string `json:"step"`
	Note string `json:"note,omitempty"`
}

// Totals counts nodes. Outcomes has every outcome, also those without a node.
// Unhandled counts nodes that were planned and not finished, Left those beyond
// the limit.
type Totals struct {
	Nodes     int            `json:"nodes"`
	Unhandled int            `json:"unhandled"`
	Left      int            `json:"left"`
	Outcomes  map[string]int `json:"outcomes"`
}

// Save replaces the copy of the report at path and returns the packed report,
// which ReadReport reads. The copy belongs to the owner of its directory; it is
// durable, or the former copy is untouched. An error of the copy alone comes
// together with the packed report.
func (d Document) Save(path string) (packed []byte, err error) {
	file, err := renameio.NewPendingFile(path, renameio.WithTempDir(filepath.Dir(path)), renameio.WithStaticPermissions(0o600))
	if err != nil {
		return nil, fmt.Errorf("report: %w", WithPath(err, path))
	}
	defer func() { _ = file.Cleanup() }() // no effect after the replacement
	if err := installstate.Adopt(file.File); err != nil {
		return nil, fmt.Errorf("report: %w", WithPath(err, path))
	}
	if packed, err = d.pack(file); err != nil {
		return nil, fmt.Errorf("report: %w", WithPath(err, path))
	}
	if err := file.CloseAtomicallyReplace(); err != nil {
		return nil, fmt.Errorf("report: %w", WithPath(err, path))
	}
	return packed, syncDirectory(path)
}

// Pack returns the packed report, which ReadReport reads.
func (d Document) Pack() ([]byte, error) { return d.pack(io.Discard) }

// pack returns the packed report and writes the unpacked one to w.
func (d Document) pack(w io.Writer) ([]byte, error) {
	var buffer bytes.Buffer
	packer := gzip.NewWriter(&buffer)
	if err := d.WriteJSON(io.MultiWriter(w, packer)); err != nil {
		return nil, err
	}
	err := packer.Close()
	return buffer.Bytes(), err
}

// maxReport bounds the text of a report that is read, in bytes: some 500 a node.
const maxReport = 256 << 20

// ReadReport reads a packed report. Its error unwraps to ErrUnreadableReport.
func ReadReport(packed []byte) (Document, error) { return readReport(packed, maxReport) }

// readReport reads at most limit bytes of text. In shared records another program
// may have written the report, and a few bytes can unpack to gigabytes.
func readReport(packed []byte, limit int64) (doc Document, err error) {
	unpacker, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return Document{}, fmt.Errorf("%w: %w; the next run replaces it", ErrUnreadableReport, err)
	}
	text := &io.LimitedReader{R: unpacker, N: limit}
	if err := json.NewDecoder(text).Decode(&doc); err != nil {
		if text.N == 0 {
			err = fmt.Errorf("it unpacks to more than %d bytes", limit)
		}
		return Document{}, fmt.Errorf("%w: %w; the next run replaces it", ErrUnreadableReport, err)
	}
	if doc.SchemaVersion != SchemaVersion {
		return Document{}, fmt.Errorf("%w: its schema version is %d, not %d", ErrUnreadableReport, doc.SchemaVersion, SchemaVersion)
	}
	return doc, nil
}

// syncDirectory makes a new file name durable.
func syncDirectory(path string) error {
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := dir.Sync(); err != nil {
		return fmt.Errorf("flushing %s: %w", filepath.Dir(path), err)
	}
	return nil
}
