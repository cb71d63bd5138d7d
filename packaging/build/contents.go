package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// entry is one file or directory of an installation.
type entry struct {
	path   string
	mode   fs.FileMode
	group  string
	data   []byte
	dir    bool
	config bool // kept when the operator changed it
}

// readContents returns the entries of packaging/contents.
func readContents(root string) ([]entry, error) {
	table, err := os.ReadFile(filepath.Join(root, "packaging", "contents"))
	if err != nil {
		return nil, err
	}
	var entries []entry
	lines := bufio.NewScanner(bytes.NewReader(table))
	for n := 1; lines.Scan(); n++ {
		if strings.HasPrefix(lines.Text(), "#") {
			continue
		}
		fields := strings.Fields(lines.Text())
		if len(fields) != 5 {
			return nil, fmt.Errorf("packaging/contents:%d: %d columns, want 5", n, len(fields))
		}
		row, err := readRow(root, fields)
		if err != nil {
			return nil, fmt.Errorf("packaging/contents:%d: %w", n, err)
		}
		entries = append(entries, row...)
	}
	return entries, lines.Err()
}

// readRow returns the entries of one row: several when its source is a pattern.
func readRow(root string, fields []string) ([]entry, error) {
	mode, err := strconv.ParseUint(fields[1], 8, 12)
	if err != nil {
		return nil, err
	}
	row := entry{path: fields[2], mode: fs.FileMode(mode), group: fields[4], dir: fields[0] == "dir", config: fields[0] == "config"}
	if row.dir {
		return []entry{row}, nil
	}
	sources, err := filepath.Glob(filepath.Join(root, fields[3]))
	if err != nil || len(sources) == 0 {
		return nil, fmt.Errorf("%s: no file matches (%v)", fields[3], err) //nolint:errorlint // there may be none to wrap
	}
	var entries []entry
	for _, source := range sources {
		e := row
		if strings.HasSuffix(row.path, "/") {
			e.path += filepath.Base(source)
		}
		if e.data, err = os.ReadFile(source); err != nil {
			return nil, err
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// madeContents returns man pages and completions. program runs on this machine.
func madeContents(root, program string) ([]entry, error) {
	var entries []entry
	for _, page := range []string{"man8/provision.8", "man5/provision.yaml.5"} {
		text, err := os.ReadFile(filepath.Join(root, "docs", filepath.Base(page)))
		if err != nil {
			return nil, err
		}
		entries = append(entries, entry{path: "/usr/share/man/" + page + ".gz", mode: 0o644, group: "root", data: zipped(text)})
	}
	for shell, path := range map[string]string{
		"bash": "/usr/share/bash-completion/completions/provision",
		"zsh":  "/usr/share/zsh/site-functions/_provision",
		"fish": "/usr/share/fish/vendor_completions.d/provision.fish",
	} {
		text, err := run(root, nil, program, "completion", shell)
		if err != nil {
			return nil, err
		}
		entries = append(entries, entry{path: path, mode: 0o644, group: "root", data: text})
	}
	return entries, nil
}

// zipped compresses a man page without a time or name in its header.
func zipped(text []byte) []byte {
	var b bytes.Buffer
	w, _ := gzip.NewWriterLevel(&b, gzip.BestCompression) // the level is valid
	_, _ = w.Write(text)                                  // a buffer takes all
	_ = w.Close()
	return b.Bytes()
}
