package installstate

import (
	"bufio"
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

// childMarker makes the test binary play another process of the product; its
// value names the role, with arguments after it, separated by newlines.
const childMarker = "INSTALLSTATE_TEST_CHILD"

func TestMain(m *testing.M) {
	if role := os.Getenv(childMarker); role != "" {
		args := strings.Split(role, "\n")
		roles[args[0]](args[1:])
		return
	}
	os.Exit(m.Run())
}

// roles read nothing but their arguments and print what they saw.
var roles = map[string]func(args []string){
	"hold":  hold,
	"wait":  wait,
	"write": writeForever,
	"other": asOther,
	"files": withFewFiles,
	"small": withSmallFiles,
}

// wait stays until stdin ends.
func wait([]string) { _, _ = io.Copy(io.Discard, os.Stdin) }

// hold claims the node, with "offspring" starts a child of its own first, prints
// the result and stays until stdin ends.
func hold(args []string) {
	s := NewStore(args[0])
	claim, err := s.AcquireLock(identity)
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
	claim.Release()
}

// writeForever completes one node after another, ten at once, and prints each
// identity once its completion was reported.
func writeForever(args []string) {
	s := NewStore(args[0])
	done := make(chan string)
	for worker := range 10 {
		go func() {
			for i := 0; ; i++ {
				name := fmt.Sprintf("%s-%d-%d", args[1], worker, i)
				if err := completeOne(s, name); err != nil {
					done <- "error: " + err.Error()
				}
				done <- name
			}
		}()
	}
	for name := range done {
		fmt.Println(name)
	}
}

// completeOne does what a run does with one node.
func completeOne(s *Store, name string) error {
	claim, err := s.AcquireLock(name)
	if err != nil {
		return err
	}
	defer claim.Release()
	record := NewRecord(name, fingerprint)
	if err := s.Save(record); err != nil {
		return err
	}
	record.RestartRequested = time.Now().UTC()
	if err := s.Save(record); err != nil {
		return err
	}
	return s.MarkComplete(record)
}

// asOther is a user that owns nothing here.
func asOther(args []string) {
	if err := syscall.Setuid(65534); err != nil && os.Geteuid() == 0 {
		fmt.Println(err)
		return
	}
	tryAll(args[0])
}

// withFewFiles may open args[1] files.
func withFewFiles(args []string) {
	time.NewTimer(time.Hour).Stop() // the runtime opens its own for timers first: without them it ends
	limit, _ := strconv.ParseUint(args[1], 10, 64)
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: limit, Max: limit}); err != nil {
		fmt.Println(err)
		return
	}
	tryAll(args[0])
}

// withSmallFiles may write files of args[1] bytes, as on a disk that fills.
func withSmallFiles(args []string) {
	signal.Ignore(syscall.SIGXFSZ)
	limit, _ := strconv.ParseUint(args[1], 10, 64)
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: limit, Max: limit}); err != nil {
		fmt.Println(err)
		return
	}
	tryAll(args[0])
}

// tryAll prints on a line each what the main calls return.
func tryAll(dir string) {
	s := NewStore(dir)
	_, err := s.Load(identity)
	fmt.Println("load:", err)
	fmt.Println("check:", s.CheckWritable())
	fmt.Println("save:", s.Save(NewRecord("new", fingerprint)))
	_, err = s.AcquireLock("new")
	fmt.Println("claim:", err)
	_, err = s.AcquireRunLock()
	fmt.Println("run:", err)
}

// child is another process under test.
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
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return &child{cmd, stdin, bufio.NewScanner(stdout)}
}

// line waits for the next line of the child; empty at its end.
func (c *child) line() string {
	c.lines.Scan()
	return c.lines.Text()
}

// kill ends the child by SIGKILL and waits for its end.
func (c *child) kill(t *testing.T) {
	t.Helper()
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait()
}
