package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"choria-provision/internal/fleet"
	"choria-provision/internal/lab"

	"golang.org/x/sys/unix"
)

// load is one thing to measure: a fleet and a command that works on it.
type load struct {
	enrollment string
	nodes      int
	faults     []fleet.Fault
	keys       map[string]any // of provision.yaml
	inMemory   bool           // the state directory is
	command    []string
	env        []string // beside the lab's
	mayFail    bool     // exit code 3 is expected: some nodes are faulty
	hosts      int      // run the command as this many hosts with shared records; 0: one alone
	helper     string   // instead of the bench's own
	kill       bool     // the last host is killed when half of the nodes are done
	any        bool     // the fleet need not be provisioned
}

// figures are what one run of a load cost.
type figures struct {
	wall   time.Duration
	cpu    time.Duration // of the process, its children left out
	memory int64         // bytes, at the peak
	peak   int           // sockets of it, the most seen at once: connections to the broker
	up     int           // nodes that came into service
	took   time.Duration // from the first discovery to the last restart, as the nodes saw it
}

// perSecond and perNode relate a run to the nodes it brought into service.
func (f figures) perSecond() float64     { return float64(f.up) / f.wall.Seconds() }
func (f figures) perNode() time.Duration { return f.cpu / time.Duration(max(f.up, 1)) }

// measure starts a lab for the load, runs the command in it and has the fleet
// itself say that all is well.
func (b *bench) measure(ctx context.Context, l load) (figures, error) {
	site, err := b.lab(ctx, lab.Options{Enrollment: l.enrollment, Simulate: l.nodes, Faults: l.faults, Hosts: l.hosts})
	if err != nil {
		return figures{}, err
	}
	if l.inMemory {
		l.env = append(l.env, "PROVISION_STATE_DIR="+filepath.Join(b.memory, rand.Text()))
	}
	f, err := b.measureIn(ctx, site, l)
	if closed := site.Close(); err == nil {
		err = closed
	}
	return f, err
}

// spread asks ext4 to give each lab another part of the disk, which it chooses by
// the lab's name. Without a journal it looks at every file that was removed from
// the same part in the last minutes when it makes one, so that a lab would pay
// for whatever was there before. Elsewhere it does nothing.
func spread(dir string) {
	const topDirectory = 0x20000 // FS_TOPDIR_FL of linux/fs.h
	opened, err := os.Open(dir)
	if err != nil {
		return
	}
	defer opened.Close()
	flags, err := unix.IoctlGetInt(int(opened.Fd()), unix.FS_IOC_GETFLAGS)
	if err == nil {
		_ = unix.IoctlSetPointerInt(int(opened.Fd()), unix.FS_IOC_SETFLAGS, flags|topDirectory)
	}
}

// lab starts a lab whose directory stays until all is measured: some file systems
// take longer to make files for minutes after others were removed.
func (b *bench) lab(ctx context.Context, o lab.Options) (*lab.Lab, error) {
	dir, err := os.MkdirTemp(b.dir, "")
	if err != nil {
		return nil, err
	}
	o.Dir = dir
	return lab.Start(ctx, o)
}

func (b *bench) measureIn(ctx context.Context, site *lab.Lab, l load) (figures, error) {
	helper := b.helper
	if l.helper != "" {
		helper = l.helper
	}
	if err := site.UseTiny(helper, l.keys); err != nil {
		return figures{}, err
	}
	work := run
	if l.hosts > 0 {
		work = runHosts
	}
	f, err := work(ctx, site, l)
	if err != nil {
		return f, err
	}
	report, err := site.Simulated()
	if err != nil {
		return f, err
	}
	if err := report.Check(); err != nil && !(l.kill && recovered(report)) {
		return f, err
	}
	f.up, f.took = report.InService(), report.Took
	if want := report.Provisionable(); !l.any && f.up != want {
		return f, fmt.Errorf("%d nodes came into service, want %d", f.up, want)
	}
	return f, nil
}

// run runs the command and samples what the kernel counts of it: a process's
// own time is no longer told once it has been waited for.
func run(ctx context.Context, site *lab.Lab, l load) (f figures, err error) {
	cmd := exec.CommandContext(ctx, l.command[0], l.command[1:]...) //nolint:gosec // the benchmark's own
	cmd.Env = append(site.Env(), l.env...)                          // the last one counts
	var problems bytes.Buffer
	cmd.Stderr = &problems
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return f, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case err = <-ended:
			f.wall = time.Since(began)
			if code := cmd.ProcessState.ExitCode(); code != 0 && !(l.mayFail && code == 3) {
				return f, fmt.Errorf("%v: %w: %s", l.command, err, last(problems.String()))
			}
			return f, nil
		case <-tick.C:
			if cpu, err := cpuOf(cmd.Process.Pid); err == nil {
				f.cpu = max(f.cpu, cpu)
			}
			f.memory = max(f.memory, memoryOf(cmd.Process.Pid))
			f.peak = max(f.peak, socketsOf(cmd.Process.Pid))
		}
	}
}

// clockTick is the kernel's unit in /proc: 10 ms everywhere Go runs.
const clockTick = 10 * time.Millisecond

// cpuOf reads utime and stime of a process from /proc: proc(5).
func cpuOf(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(text), ") ") // the name may hold anything
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(fields))
	}
	user, err := strconv.ParseInt(fields[11], 10, 64)
	if err != nil {
		return 0, err
	}
	system, err := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * clockTick, err
}

// memoryOf reads the peak of the resident size from /proc: what the kernel tells
// when the process is waited for counts ours in, from before it was started.
func memoryOf(pid int) int64 {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	_, rest, _ := strings.Cut(string(text), "VmHWM:")
	if fields := strings.Fields(rest); len(fields) > 0 {
		kib, _ := strconv.ParseInt(fields[0], 10, 64)
		return kib << 10
	}
	return 0
}

// socketsOf counts the open sockets of a process.
func socketsOf(pid int) (count int) {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil {
		return 0
	}
	for _, file := range files {
		if target, err := os.Readlink(file); err == nil && strings.HasPrefix(target, "socket:") {
			count++
		}
	}
	return count
}

func last(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-3):], " / ")
}
