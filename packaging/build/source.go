package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// source is the tree that packages are built from.
type source struct {
	root    string
	version string    // of the release, as deb and rpm order it
	commit  string    // 40 digits
	date    time.Time // of the commit: the one time in all that is built
}

// nextRelease is the newest heading of the changelog.
var nextRelease = regexp.MustCompile(`(?m)^## (\d+\.\d+\.\d+)`)

// openSource reads what identifies the tree at root. A commit with a tag vX.Y.Z
// is release X.Y.Z; another one comes before the release that the changelog
// names next, in the order of commit times.
func openSource(root string) (source, error) {
	s := source{root: root}
	seconds, err := git(root, "log", "-1", "--format=%ct")
	if err != nil {
		return source{}, err
	}
	if epoch := os.Getenv("SOURCE_DATE_EPOCH"); epoch != "" {
		seconds = epoch
	}
	at, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return source{}, fmt.Errorf("the commit's time: %w", err)
	}
	s.date = time.Unix(at, 0).UTC()
	if s.commit, err = git(root, "rev-parse", "HEAD"); err != nil {
		return source{}, err
	}
	s.version, err = releaseOf(s)
	return s, err
}

func releaseOf(s source) (string, error) {
	tag, err := git(s.root, "describe", "--exact-match", "--tags", "--match", "v[0-9]*", "HEAD")
	if err == nil {
		return strings.TrimPrefix(tag, "v"), nil
	}
	log, err := os.ReadFile(filepath.Join(s.root, "CHANGELOG.md"))
	if err != nil {
		return "", err
	}
	next := nextRelease.FindSubmatch(log)
	if next == nil {
		return "", fmt.Errorf("CHANGELOG.md: no heading names a release")
	}
	return fmt.Sprintf("%s~%s.%s", next[1], s.date.Format("20060102150405"), s.commit[:8]), nil
}

// git returns what a git command prints, without the line end.
func git(root string, args ...string) (string, error) {
	out, err := run(root, nil, "git", args...)
	return strings.TrimSpace(string(out)), err
}

// run returns the stdout of a command in dir, also beside an error, which holds
// its stderr.
func run(dir string, env []string, name string, args ...string) ([]byte, error) {
	var stderr bytes.Buffer
	c := exec.Command(name, args...)
	c.Dir, c.Env, c.Stderr = dir, append(os.Environ(), env...), &stderr
	out, err := c.Output()
	if err != nil {
		return out, fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, stderr.String())
	}
	return out, nil
}
