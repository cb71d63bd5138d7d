package commands

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"choria-provision/internal/lab"
	"choria-provision/output"
)

// patience bounds a run of the product in a test: none of them takes a
// fraction of it.
const patience = 2 * time.Minute

// startLab brings up a site for one test.
func startLab(t *testing.T, o lab.Options) *lab.Lab {
	t.Helper()
	l, err := lab.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// ran is what a run of the product left.
type ran struct {
	code           int
	stdout, stderr string
}

// provisionCommand is the product as a process of its own, in the lab.
func provisionCommand(t *testing.T, l *lab.Lab, args ...string) (*exec.Cmd, *bytes.Buffer, *bytes.Buffer) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return commandUntil(ctx, l, args...)
}

// commandUntil is the product as a process that is killed when ctx ends.
func commandUntil(ctx context.Context, l *lab.Lab, args ...string) (*exec.Cmd, *bytes.Buffer, *bytes.Buffer) {
	cmd := exec.CommandContext(ctx, filepath.Join(l.Dir(), "bin", "provision"), args...)
	cmd.Env = l.Env()
	cmd.WaitDelay = time.Second
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	return cmd, &stdout, &stderr
}

func runIn(t *testing.T, l *lab.Lab, args ...string) ran {
	t.Helper()
	cmd, stdout, stderr := provisionCommand(t, l, args...)
	return ended(t, cmd.Run(), stdout, stderr)
}

func ended(t *testing.T, err error, stdout, stderr *bytes.Buffer) ran {
	t.Helper()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		return ran{exit.ExitCode(), stdout.String(), stderr.String()}
	case err != nil:
		t.Fatal(err)
	}
	return ran{0, stdout.String(), stderr.String()}
}

// report runs a command with --output json and returns its document.
func report(t *testing.T, l *lab.Lab, args ...string) (output.Document, ran) {
	t.Helper()
	r := runIn(t, l, append(args, "--output", "json")...)
	var doc output.Document
	if err := json.Unmarshal([]byte(r.stdout), &doc); err != nil {
		t.Fatalf("%v: stdout is no document: %v\n%s\nstderr: %s", args, err, r.stdout, r.stderr)
	}
	return doc, r
}

// outcomes are the nodes of a report, by name.
func outcomes(doc output.Document) map[string]output.Node {
	nodes := map[string]output.Node{}
	for _, n := range doc.Nodes {
		nodes[n.Identity] = n
	}
	return nodes
}

// inService says which servers the lab itself finds in service.
func inService(t *testing.T, l *lab.Lab) (names []string) {
	t.Helper()
	findings, err := l.Verify(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range findings {
		if f.State == lab.InService {
			names = append(names, f.Node)
		} else {
			t.Logf("%s: %s: %s", f.Node, f.State, f.Problem)
		}
	}
	return names
}

// asked are the actions of the provision agent and rpcutil that a server was
// asked for, discovery left out.
func asked(t *testing.T, l *lab.Lab, name string) (actions []string) {
	t.Helper()
	list, err := l.Actions(name)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range list {
		if a.Name != "" && a.Name != "discovery#ping" {
			actions = append(actions, a.Name)
		}
	}
	return actions
}

// helpersLeft lists processes that run a program below the lab's directory and
// are none of its servers.
func helpersLeft(t *testing.T, l *lab.Lab) (left []string) {
	t.Helper()
	processes, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	servers := l.Pids()
	for _, path := range processes {
		line, err := os.ReadFile(path)
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err == nil && bytes.Contains(line, []byte(l.Dir())) && !slices.Contains(servers, pid) {
			left = append(left, strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	return left
}

// tree is every file below the directories, its content and mode.
func tree(t *testing.T, dirs ...string) map[string]string {
	t.Helper()
	files := map[string]string{}
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
			switch {
			case errors.Is(err, os.ErrNotExist) && path == dir:
				files[path] = "absent"
				return nil
			case err != nil:
				return err
			}
			if strings.HasSuffix(path, ".log") || entry.Name() == "journal.jsonl" {
				return nil // what the lab's servers write down of themselves
			}
			info, err := entry.Info()
			if err != nil {
				return err
			}
			files[path] = info.Mode().String()
			if info.Mode().IsRegular() {
				content, err := os.ReadFile(path)
				files[path] += " " + string(content)
				return err
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return files
}
