package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// What is between these lines of the document is the last measurement's.
const (
	measuredBegin = "<!-- measured: make bench writes from here -->\n"
	measuredEnd   = "<!-- measured: to here -->\n"
)

// put replaces what was measured in the document and leaves the rest as it is.
func put(document, measured string) (string, error) {
	head, rest, begun := strings.Cut(document, measuredBegin)
	_, foot, ended := strings.Cut(rest, measuredEnd)
	if !begun || !ended {
		return "", fmt.Errorf("want the lines %q and %q around what is to be replaced", strings.TrimSpace(measuredBegin), strings.TrimSpace(measuredEnd))
	}
	return head + measuredBegin + measured + measuredEnd + foot, nil
}

// write puts the table with what it was measured on into a document.
func (b *bench) write(path string, machine string, t table) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	measured := "\n" + machine + "\n" + t.String()
	if b.profiled {
		top, err := b.top()
		if err != nil {
			return err
		}
		measured += "\nCPU profile of the profiled run, by function (`go tool pprof -top`):\n\n```text\n" + top + "```\n\n"
	}
	whole, err := put(string(text), measured)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return os.WriteFile(path, []byte(whole), 0o644) //nolint:gosec // for everybody to read
}

// top is the profile's ten costliest functions.
func (b *bench) top() (string, error) {
	out, err := exec.Command("go", "tool", "pprof", "-top", "-nodecount=10", b.self, b.profile).Output() //nolint:gosec // our own
	if err != nil {
		return "", fmt.Errorf("go tool pprof: %w", err)
	}
	_, lines, found := bytes.Cut(out, []byte("\nDuration"))
	if !found {
		return "", errors.New("go tool pprof printed no table")
	}
	return "Duration" + string(lines), nil
}

// machine tells what is measured on and how busy it is before.
func machine(now time.Time) string {
	dir := os.TempDir()
	return fmt.Sprintf("Measured on %s: %d processors (%s), %s, Linux %s, %s; load average before: %s; state directories on %s.\n",
		now.UTC().Format("2006-01-02"), runtime.NumCPU(), processor(), memorySize(), release(), runtime.Version(), loadAverage(), fileSystem(dir))
}

func processor() string {
	text, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(text)) {
		if name, value, _ := strings.Cut(line, ":"); strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "of an unknown kind"
}

func memorySize() string {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return "memory unknown"
	}
	return fmt.Sprintf("%.0f GiB", float64(info.Totalram)*float64(info.Unit)/(1<<30))
}

func release() string {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return "of an unknown release"
	}
	version, _, _ := strings.Cut(unix.ByteSliceToString(name.Release[:]), "-")
	return version
}

func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	if fields := strings.Fields(string(text)); err == nil && len(fields) > 3 {
		return strings.Join(fields[:3], " ")
	}
	return "unknown"
}

// fileSystem tells the kind of the file system that dir is on, and for ext4
// whether it has a journal: without one, making a file after others were
// removed costs several times as much.
func fileSystem(dir string) string {
	dir, _ = filepath.EvalSymlinks(dir)
	text, _ := os.ReadFile("/proc/self/mounts")
	kind, device, longest := "an unknown file system", "", 0
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) < 4 || len(fields[1]) < longest {
			continue
		}
		if inside, err := filepath.Rel(fields[1], dir); err == nil && inside != ".." && !strings.HasPrefix(inside, "../") {
			device, kind, longest = filepath.Base(fields[0]), fields[2], len(fields[1])
		}
	}
	if kind != "ext4" {
		return kind
	}
	if task, err := os.ReadFile("/sys/fs/ext4/" + device + "/journal_task"); err == nil && strings.TrimSpace(string(task)) == "<none>" {
		return "ext4 without a journal"
	}
	return kind
}
