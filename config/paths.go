package config

import (
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kballard/go-shellquote"
)

// resolvePaths has relative paths count from the directory of the configuration
// file: a timer and a person at a shell start the program elsewhere. A file that
// is none on disk, such as a pipe from the shell's <(...), has no directory: the
// working directory counts then.
func (c *Config) resolvePaths() {
	info, err := os.Stat(c.File)
	if err != nil || !info.Mode().IsRegular() {
		return
	}
	dir := filepath.Dir(c.File)
	for _, path := range []*string{
		&c.JWTSigningKey, &c.JWTSigningToken, &c.StateDir, &c.RecordsChoria, &c.TokenFile, &c.BrokerPasswordFile,
		&c.Pushgateway.PasswordFile, &c.Pushgateway.CA, &c.MetricsTextfile,
	} {
		*path = from(dir, *path)
	}
	if !slices.Contains([]string{toStderr, toStdout, toDiscard}, c.LogFile) {
		c.LogFile = from(dir, c.LogFile)
	}
	c.JWTVerifyCert = keyFrom(dir, c.JWTVerifyCert)
	c.Helper = commandFrom(dir, c.Helper)
}

// from is path as seen from dir.
func from(dir, path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// keyFrom leaves a value that can be a key itself, and is no file, as it is.
func keyFrom(dir, value string) string {
	path := from(dir, value)
	if _, err := os.Stat(path); isHex(value) && errors.Is(err, fs.ErrNotExist) {
		return value
	}
	return path
}

// commandFrom resolves the program of a command line; a name without slash is
// looked for in $PATH.
func commandFrom(dir string, c Command) Command {
	if len(c.Args) == 0 || !strings.Contains(c.Args[0], "/") || filepath.IsAbs(c.Args[0]) {
		return c
	}
	args := slices.Clone(c.Args)
	args[0] = from(dir, args[0])
	return Command{Line: shellquote.Join(args...), Args: args}
}

// isHex reports whether a text has hex digits alone, as a key written in place of
// a path has; half a byte at its end is a mistake that the check names.
func isHex(text string) bool {
	_, err := hex.DecodeString(text)
	return text != "" && (err == nil || errors.Is(err, hex.ErrLength))
}
