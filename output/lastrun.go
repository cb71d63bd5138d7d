package output

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"
)

// LastRunFile is the name of the last run's report in the state directory.
const LastRunFile = "last-run.json"

// ErrUnreadableReport is a report file that holds something else, or one of a
// newer version of this program.
var ErrUnreadableReport = errors.New("this is not a report that this version can read")

// WriteJSON writes the document as `--output json` shows it.
func (d Document) WriteJSON(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(d)
}

// Save replaces the report at path, for this user only. It is there in full
// and will outlive a power cut, or the former one is untouched.
func (d Document) Save(path string) error {
	var text bytes.Buffer
	if err := d.WriteJSON(&text); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return replace(path, text.Bytes())
}

// LoadLastRun reads the report at path. It is os.ErrNotExist when no run left
// one, and ErrUnreadableReport when it cannot be understood.
func LoadLastRun(path string) (Document, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return Document{}, fmt.Errorf("report of the last run: %w", err)
	}
	var doc Document
	if err := json.Unmarshal(text, &doc); err != nil {
		return Document{}, fmt.Errorf("%s: %w: %w; the next run replaces it", path, ErrUnreadableReport, err)
	}
	if doc.SchemaVersion != SchemaVersion {
		return Document{}, fmt.Errorf("%s: %w: its schema version is %d, not %d", path, ErrUnreadableReport, doc.SchemaVersion, SchemaVersion)
	}
	return doc, nil
}

// replace puts a file of that content, mode 0600, in the place of path, and
// flushes file and directory.
func replace(path string, content []byte) error {
	if err := renameio.WriteFile(path, content, 0o600, renameio.WithTempDir(filepath.Dir(path)), renameio.WithStaticPermissions(0o600)); err != nil {
		return err
	}
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
