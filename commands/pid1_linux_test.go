package commands

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"choria-provision/internal/lab"
)

// TestProcess1WaitsForOrphans runs watch as process 1 of a PID namespace with a
// helper that leaves a process behind.
func TestProcess1WaitsForOrphans(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	helper := filepath.Join(dir, "helper")
	script := "#!/bin/sh\nsetsid sh -c 'read line <" + fifo + "' >/dev/null 2>&1 </dev/null &\nexec \"$(command -v lab-helper)\"\n"
	if err := os.WriteFile(helper, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	l := startLab(t, lab.Options{Nodes: 1, Enrollment: lab.Insecure, Helper: helper})
	cmd, stdout, stderr := provisionCommand(t, l, "watch")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWPID,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}},
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("no PID namespace can be made here: %v", err)
	}
	awaitAction(t, l, l.NodeNames()[0], "choria_provision#restart")
	orphans := func() int { return strings.Count(strings.Join(childrenOf(t, cmd.Process.Pid), " "), "sh") }
	await(t, "an orphan is there", func() bool { return orphans() > 0 })

	release, err := os.OpenFile(fifo, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := release.Close(); err != nil {
		t.Fatal(err)
	}
	await(t, "the orphan has ended and was waited for", func() bool { return orphans() == 0 })

	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if r := ended(t, cmd.Wait(), stdout, stderr); r.code != exitDone {
		t.Errorf("got exit code %d, want %d\n%s", r.code, exitDone, r.stderr)
	}
}

// childrenOf returns the names of a process's children, zombies among them.
func childrenOf(t *testing.T, pid int) (names []string) {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, stat := range stats {
		text, err := os.ReadFile(stat)
		if err != nil {
			continue // it has ended
		}
		var parent int
		var state string
		from, to := strings.IndexByte(string(text), '('), strings.LastIndexByte(string(text), ')')
		if n, _ := fmt.Sscanf(string(text[to+1:]), "%s %d", &state, &parent); n == 2 && parent == pid {
			names = append(names, string(text[from+1:to]))
		}
	}
	return names
}
