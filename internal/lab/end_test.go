package lab

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestCloseEndsChildrenAndRemovesItsDirectory(t *testing.T) {
	t.Parallel()
	l, err := Start(t.Context(), Options{Nodes: 2, Enrollment: Insecure})
	if err != nil {
		t.Fatal(err)
	}
	pids := l.Pids()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if len(pids) != 2 {
		t.Errorf("got %d processes, want 2", len(pids))
	}
	for _, pid := range pids {
		if alive(pid) {
			t.Errorf("got server %d alive after Close, want it gone", pid)
		}
	}
	if _, err := os.Stat(l.Dir()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v for the temporary directory, want it gone", err)
	}
}

func TestCloseKeepsADirectoryThatWasNamed(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "kept")
	l, err := Start(t.Context(), Options{Nodes: 1, Enrollment: Insecure, Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{l.ConfigFile(), l.ChoriaFile(), filepath.Join(l.NodeDir(l.NodeNames()[0]), logFile)} {
		if _, err := os.Stat(file); err != nil {
			t.Errorf("got %v, want it kept", err)
		}
	}
}

func TestChildrenEndWhenTheLabIsKilled(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, t.TempDir()+"/lab")
	cmd.Env = append(os.Environ(), childVariable+"="+childLab)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, out)
	_ = cmd.Wait() // killed

	pids := strings.Fields(line)
	if len(pids) != 2 {
		t.Fatalf("got processes %q, want 2", line)
	}
	for _, text := range pids {
		pid, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		awaitEnd(t, pid)
	}
}

// awaitEnd waits for a process that is no child of ours; only a stuck one ever
// takes the whole time.
func awaitEnd(t *testing.T, pid int) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(time.Minute)
	for alive(pid) {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("got server %d alive, want it gone with its lab", pid)
		}
	}
}

// alive reports whether a process runs; one that has ended and that no process has
// waited for does not.
func alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return !errors.Is(err, os.ErrNotExist)
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z")
}
