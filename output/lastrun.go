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

	"choria-provision/provision/installstate"

	"github.com/google/renameio/v2"
)

// LastRunFile is the name of the copy of the last run's report in the state
// directory, for scripts. The product itself reads the one in the state.
const LastRunFile = "last-run.json"

// ErrUnreadableReport is a stored report that this version cannot read.
var ErrUnreadableReport = errors.New("the report of the last run cannot be read")

// Save replaces the copy of the report at path, for the owner of its directory,
// and returns the report as ReadReport takes it. The copy is complete and
// durable, or the former one is untouched.
func (d Document) Save(path string) (packed []byte, err error) {
	file, err := renameio.NewPendingFile(path, renameio.WithTempDir(filepath.Dir(path)), renameio.WithStaticPermissions(0o600))
	if err != nil {
		return nil, fmt.Errorf("report: %w", WithPath(err, path))
	}
	defer func() { _ = file.Cleanup() }() // nothing is left after the replacement
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

// Pack returns the report as ReadReport takes it.
func (d Document) Pack() ([]byte, error) { return d.pack(io.Discard) }

// pack also writes the report as it is to w.
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

// ReadReport reads a report that Save returned. ErrUnreadableReport says that it
// cannot be understood.
func ReadReport(packed []byte) (Document, error) { return readReport(packed, maxReport) }

// readReport reads no more than limit bytes of text: in shared records a report
// may be another program's, and a few bytes unpack to gigabytes.
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

// syncDirectory makes a new name outlast a power cut.
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
