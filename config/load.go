package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
)

// Overrides is what the command line and the machine add to the file.
type Overrides struct {
	Getenv   func(string) string // the environment; required
	Keys     Keys                // readers of key files; required
	StateDir string              // --state-dir; wins over everything
	Debug    bool                // --debug; wins over loglevel
	Root     bool                // the process runs as root
	Stdout   fs.FileInfo         // the file that stdout goes to, nil when it is none
}

// Load reads the file at path over Default and checks all of it. The warnings
// of a usable configuration are returned beside it. One that is not usable
// gives an *Invalid that holds every problem found, warnings included. Nothing
// is created or changed.
func Load(path string, o Overrides) (*Config, []Problem, error) {
	cfg := Default()
	cfg.File = absolute(path)
	source, p := readSource(cfg.File)
	if p != nil {
		return nil, nil, &Invalid{[]Problem{*p}}
	}
	problems := cfg.decode(source, o)
	for _, f := range checkAccess("", cfg.File) {
		problems = append(problems, f.Problem)
	}
	for i, p := range problems {
		if p.File == "" {
			problems[i].File = cfg.File
		}
	}
	sortProblems(problems)
	if hasErrors(problems) {
		return nil, nil, &Invalid{problems}
	}
	return cfg, problems, nil
}

func readSource(path string) ([]byte, *Problem) {
	refuse := func(text, remedy string) ([]byte, *Problem) {
		return nil, &Problem{Severity: SeverityError, File: path, Text: text, Remedy: remedy}
	}
	file, err := os.Open(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return refuse("there is no such file", "`provision init` writes one to start from; name another with --config or $PROVISION_CONFIG")
	case errors.Is(err, fs.ErrPermission):
		return refuse("may not be read", "give this user the right to read it")
	case err != nil:
		return refuse(cause(err), "name a readable file with --config")
	}
	defer file.Close()
	source, err := io.ReadAll(io.LimitReader(file, maxSource+1))
	switch {
	case err != nil:
		return refuse(cause(err), "name a readable file with --config")
	case len(source) > maxSource:
		return refuse(fmt.Sprintf("is larger than %d KiB", maxSource>>10), "name the right file with --config")
	}
	return source, nil
}

// cause is err without the path, which the problem shows already.
func cause(err error) string {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err.Error()
	}
	return err.Error()
}

// decode fills c from source and returns all problems, each with its place.
func (c *Config) decode(source []byte, o Overrides) []Problem {
	t := parseSource(source)
	d := newDecoder(t.root)
	d.document(t.root, c)
	t.hopeless = t.hopeless || len(d.marks) == 0 && hasErrors(d.problems)
	problems := append(t.problems, d.problems...)
	c.resolve(o)
	decoded := problems
	for _, f := range c.check(o) {
		// What is wrong already is not judged by its default, and what could
		// not be read is not called missing.
		if _, given := d.marks[f.Key]; toldAt(decoded, f.Key) || !given && t.hopeless {
			continue
		}
		problems = append(problems, d.located(f))
	}
	c.normalize()
	return problems
}

// located gives a finding the place of its key, or of the key it is near to, or
// of the nearest one above it; else it belongs to the file as a whole.
func (d *decoder) located(f finding) Problem {
	if f.File != "" { // the mistake is not in the file
		return f.Problem
	}
	keys := []string{f.Key, f.near}
	for key := f.Key; key != ""; {
		key = key[:max(strings.LastIndexAny(key, ".["), 0)]
		keys = append(keys, key)
	}
	f.Line, f.Column = 1, 1
	for _, key := range keys {
		if at, ok := d.marks[key]; ok {
			f.Line, f.Column = at.line, at.column
			break
		}
	}
	return f.Problem
}
