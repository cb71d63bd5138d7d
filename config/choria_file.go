package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	choriaconfig "github.com/choria-io/go-choria/config"
)

// loadChoriaFile reads a Choria client configuration and its plugin.d. What can
// be read only once, such as a pipe from the shell's <(...), is read through a
// temporary file: go-choria reads a file twice.
func loadChoriaFile(file string) (*choriaconfig.Config, error) {
	path, remove, err := rereadable(file)
	if err != nil {
		return nil, err
	}
	defer remove()
	cfg, err := choriaconfig.NewSystemConfig(path, false)
	if err != nil {
		return nil, choriaMistake(file, cause(err), "mend it: it is a Choria client configuration")
	}
	cfg.ConfigFile = absolute(file)
	return cfg, nil
}

// rereadable returns a path where the content of file can be read more than
// once, and what removes it.
func rereadable(file string) (path string, remove func(), err error) {
	opened, err := os.Open(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", nil, choriaMistake(file, "there is no such Choria client configuration", "name one with --choria-config or $PROVISION_CHORIA_CONFIG")
	case err != nil:
		return "", nil, choriaMistake(file, cause(err), "name a readable Choria client configuration with --choria-config")
	}
	defer opened.Close()
	info, err := opened.Stat()
	switch {
	case err != nil || info.IsDir():
		return "", nil, choriaMistake(file, "is not a file", "name a Choria client configuration with --choria-config")
	case info.Mode().IsRegular():
		return file, func() {}, nil
	}
	text, err := io.ReadAll(io.LimitReader(opened, maxFile+1))
	switch {
	case err != nil:
		return "", nil, choriaMistake(file, cause(err), "name a readable Choria client configuration with --choria-config")
	case len(text) > maxFile:
		return "", nil, choriaMistake(file, fmt.Sprintf("is larger than %d KiB", maxFile>>10), "name the right file with --choria-config")
	}
	return spool(text)
}

// spool writes text to a file in a directory of its own, which has no plugin.d
// and is readable by this user alone: the text may hold a password.
func spool(text []byte) (path string, remove func(), err error) {
	dir, err := os.MkdirTemp("", "provision-choria-")
	if err != nil {
		return "", nil, fmt.Errorf("copying the Choria client configuration: %w", err)
	}
	remove = func() { _ = os.RemoveAll(dir) }
	path = filepath.Join(dir, "client.conf")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		remove()
		return "", nil, fmt.Errorf("copying the Choria client configuration: %w", err)
	}
	return path, remove, nil
}

func choriaMistake(file, text, remedy string) error {
	return &Invalid{[]Problem{{Severity: SeverityError, File: absolute(file), Text: text, Remedy: remedy}}}
}
