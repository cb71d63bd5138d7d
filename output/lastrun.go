package output

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"choria-provision/internal/named"

	"github.com/google/renameio/v2"
)

// LastRunFile is the name of the last run's report in the state directory.
const LastRunFile = "last-run.json"

// ErrUnreadableReport is a report file that holds something else, or one of a
// newer version of this program.
var ErrUnreadableReport = errors.New("this is not a report that this version can read")

// WriteJSON writes the document as `--output json` shows it. Nodes are encoded
// one by one: a report of 50,000 is some 60 MB of text, and encoding it whole
// would take several times that in memory.
func (d Document) WriteJSON(w io.Writer) error {
	nodes := d.Nodes
	d.Nodes = []Node{}
	frame, err := encode(d, "")
	if err != nil {
		return err
	}
	before, after, found := bytes.Cut(frame, []byte(noNodes)) // quotes inside of texts are escaped: there is one
	if !found {
		return errors.New("the report has no place for nodes")
	}
	out := bufio.NewWriter(w)
	_, _ = out.Write(before) // bufio keeps the first error for Flush
	_, _ = out.WriteString(noNodes[:len(noNodes)-1])
	for i, node := range nodes {
		text, err := encode(node, "    ")
		if err != nil {
			return err
		}
		_, _ = out.WriteString(separator(i) + "\n    ")
		_, _ = out.Write(bytes.TrimRight(text, "\n"))
	}
	if len(nodes) > 0 {
		_, _ = out.WriteString("\n  ")
	}
	_, _ = out.WriteString("]")
	_, _ = out.Write(after)
	return out.Flush()
}

// noNodes is how the document shows an empty list of nodes.
const noNodes = `"nodes": []`

func separator(i int) string {
	if i == 0 {
		return ""
	}
	return ","
}

func encode(v any, prefix string) ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent(prefix, "  ")
	err := encoder.Encode(v)
	return text.Bytes(), err
}

// Save replaces the report at path, for this user only. It is there in full
// and will outlive a power cut, or the former one is untouched.
func (d Document) Save(path string) error {
	file, err := renameio.NewPendingFile(path, renameio.WithTempDir(filepath.Dir(path)), renameio.WithStaticPermissions(0o600))
	if err != nil {
		return fmt.Errorf("report: %w", named.Path(err, path))
	}
	defer func() { _ = file.Cleanup() }() // nothing is left after the replacement
	if err := d.WriteJSON(file); err != nil {
		return fmt.Errorf("report: %w", named.Path(err, path))
	}
	if err := file.CloseAtomicallyReplace(); err != nil {
		return fmt.Errorf("report: %w", named.Path(err, path))
	}
	return syncDirectory(path)
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
		return named.Path(err, path)
	}
	return syncDirectory(path)
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
