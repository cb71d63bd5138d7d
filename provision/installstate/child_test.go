package installstate

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// childMarker makes the test binary play another process of ours; its value
// says which, with arguments after it, separated by newlines.
const childMarker = "INSTALLSTATE_TEST_CHILD"

func TestMain(m *testing.M) {
	if role := os.Getenv(childMarker); role != "" {
		args := strings.Split(role, "\n")
		roles[args[0]](args[1:])
		return
	}
	os.Exit(m.Run())
}

// roles read nothing but their arguments and tell what they saw on stdout.
var roles = map[string]func(args []string){
	"hold":      hold,
	"note":      noteAndStay,
	"wait":      wait,
	"run":       saveInRun,
	"cramped":   cramped,
	"crash":     crash,
	"unlucky":   unlucky,
	"powerless": powerless,
}

// wait stays until stdin ends.
func wait([]string) { _, _ = io.Copy(io.Discard, os.Stdin) }

// hold takes the lock of a machine, with "offspring" a child of its own too,
// says how it went and keeps it until stdin ends.
func hold(args []string) {
	lock, err := NewStore(args[0]).AcquireLock(machine)
	if err != nil {
		fmt.Println(err)
		return
	}
	if len(args) > 1 {
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), childMarker+"=wait")
		child.Stdin = os.Stdin
		if err := child.Start(); err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("offspring", child.Process.Pid)
	}
	fmt.Println("held")
	wait(nil)
	lock.Release()
}

// noteAndStay saves a record, notes its restart, says so and stays until stdin
// ends.
func noteAndStay(args []string) {
	s := NewStore(args[0])
	lock, err := s.AcquireLock(machine)
	if err == nil {
		record := NewRecord(machine, fingerprint)
		err = s.Save(record)
		record.RestartAsked = time.Now()
		err = errors.Join(err, lock.NoteRestart(record))
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("noted")
	wait(nil)
}

// crash does to a machine's record what args[1] names and is killed at the
// args[2]th touch of the disk: before it, or after it when args[3] is "after". It
// is a run unless args[4] is empty.
func crash(args []string) {
	s := NewStore(args[0])
	left, _ := strconv.Atoi(args[2])
	touch := func(do func() error) error {
		left--
		if left == 0 && args[3] == "before" {
			_ = unix.Kill(os.Getpid(), unix.SIGKILL)
		}
		err := do()
		if left == 0 {
			_ = unix.Kill(os.Getpid(), unix.SIGKILL)
		}
		return err
	}
	real := s.disk
	s.disk = disk{
		mkdir:    func(path string) error { return touch(func() error { return real.mkdir(path) }) },
		replace:  func(path string, data []byte) error { return touch(func() error { return real.replace(path, data) }) },
		put:      func(path string, data []byte) error { return touch(func() error { return real.put(path, data) }) },
		rename:   func(from, to string) error { return touch(func() error { return real.rename(from, to) }) },
		remove:   func(path string) error { return touch(func() error { return real.remove(path) }) },
		syncDir:  func(path string) error { return touch(func() error { return real.syncDir(path) }) },
		syncFile: func(path string) error { return touch(func() error { return real.syncFile(path) }) },
		syncData: func(file *os.File) error { return touch(func() error { return real.syncData(file) }) },
		syncAll:  func(file *os.File) error { return touch(func() error { return real.syncAll(file) }) },
		boot:     real.boot,
	}
	endRun := func() {}
	if args[4] != "" {
		run, err := s.AcquireRunLock()
		if err != nil {
			fmt.Println(err)
			return
		}
		endRun = run.Release
	}
	lock, err := s.AcquireLock(machine)
	if err == nil {
		err = actions[args[1]](s)
		lock.Release()
	}
	endRun()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("done")
}

// actions are what a crash interrupts.
var actions = map[string]func(*Store) error{
	"save": func(s *Store) error { return s.Save(NewRecord(machine, fingerprint)) },
	"complete": func(s *Store) error {
		record, err := s.Load(machine)
		if err != nil {
			return err
		}
		return s.MarkComplete(record)
	},
	"reset":  func(s *Store) error { return s.BeginReset(machine) },
	"remove": func(s *Store) error { return s.Remove(machine) },
}

// unlucky may write files of args[1] bytes, no more, as on a disk that fills.
func unlucky(args []string) {
	signal.Ignore(syscall.SIGXFSZ)
	limit, _ := strconv.ParseUint(args[1], 10, 64)
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: limit, Max: limit}); err != nil {
		fmt.Println(err)
		return
	}
	tryAll(args[0])
}

// powerless is a user who owns nothing here.
func powerless(args []string) {
	if err := syscall.Setuid(65534); err != nil && os.Geteuid() == 0 {
		fmt.Println(err)
		return
	}
	tryAll(args[0])
}

func tryAll(dir string) {
	s := NewStore(dir)
	fmt.Println("check:", s.CheckWritable())
	fmt.Println("save:", s.Save(NewRecord("new", fingerprint)))
	_, err := s.AcquireLock("new")
	fmt.Println("lock:", err)
}

// child is a process of ours under test.
type child struct {
	*exec.Cmd
	stdin io.WriteCloser
	lines *bufio.Scanner
}

// startChild starts the test binary in a role; it is ended with the test.
func startChild(t *testing.T, role ...string) *child {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childMarker+"="+strings.Join(role, "\n"))
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stdin.Close()
		_ = cmd.Wait()
	})
	return &child{cmd, stdin, bufio.NewScanner(stdout)}
}

// line waits for the next line the child says; empty at its end.
func (c *child) line() string {
	c.lines.Scan()
	return c.lines.Text()
}

// kill ends the child as nothing can resist, and waits for that.
func (c *child) kill(t *testing.T) {
	t.Helper()
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait()
}
