package commands

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"choria-provision/internal/lab"
	"choria-provision/internal/network"
	"choria-provision/provision"
	"choria-provision/provision/installstate"
)

// standMarker makes a telling watch (see storyMarker) stand still with one
// request in its hands: that of the step it names, sealed, after the last check
// and before the first byte is sent.
const standMarker = "PROVISION_TEST_STAND"

const (
	standingFile = "standing" // there while it stands still
	goFile       = "go"       // ends a stand of a process that was not stopped
)

// standing is a watch that stands still once. How is "stop" (the process is
// stopped until it gets SIGCONT) or "wait" (it waits for goFile).
type standing struct {
	w              *watch
	dir, how, step string
	calls          atomic.Int32
}

func newStanding(w *watch, dir, text string) *standing {
	how, step, _ := strings.Cut(text, ":")
	return &standing{w: w, dir: dir, how: how, step: step}
}

// observe puts the stand into the fence of the requests that follow.
func (s *standing) observe(event any) {
	if e, ok := event.(provision.StepStarted); !ok || e.Step != s.step || s.calls.Load() > 0 {
		return
	}
	fence := s.w.term.Load().Fence
	s.w.conn.SetFence(network.Fence(func() (time.Time, error) {
		deadline, err := fence()
		if s.calls.Add(1) == 2 { // the first one is asked before the request is sealed
			s.stand()
			deadline = time.Now().Add(time.Hour) // the check that follows was passed before
		}
		return deadline, err
	}))
}

func (s *standing) stand() {
	if err := os.WriteFile(filepath.Join(s.dir, standingFile), nil, 0o600); err != nil {
		panic(err)
	}
	if s.how == "stop" {
		goesOn := make(chan os.Signal, 1)
		signal.Notify(goesOn, syscall.SIGCONT)
		if err := syscall.Kill(os.Getpid(), syscall.SIGSTOP); err != nil {
			panic(err)
		}
		<-goesOn // this thread may run on for a moment
		return
	}
	for !exists(filepath.Join(s.dir, goFile)) {
		time.Sleep(5 * time.Millisecond)
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// stopped reports whether a process is stopped, by its state in proc(5).
func stopped(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, state, found := strings.Cut(string(text), ") ")
	return err == nil && found && strings.HasPrefix(state, "T")
}

// late is one way for a request to arrive after its sender's time.
type late struct {
	enrollment, step, action string
	frozen                   bool // else the process is stopped
}

// TestARequestThatLeavesLateIsDroppedByItsNode has a leader stand still with a
// sealed request that makes its node create a key. Another one leads and takes
// the node to its helper, with a key of its own; then the first one's request
// arrives. A node that carried it out would have a key that its credentials do
// not fit, and be lost for good.
func TestARequestThatLeavesLateIsDroppedByItsNode(t *testing.T) {
	t.Parallel()
	for _, c := range []late{
		{lab.PKI, "csr", "choria_provision#gencsr", false},
		{lab.PKI, "csr", "choria_provision#gencsr", true},
		{lab.Issuer, "ed25519", "choria_provision#gen25519", false},
		{lab.Issuer, "ed25519", "choria_provision#gen25519", true},
	} {
		how := "stopped process"
		if c.frozen {
			how = "frozen link"
		}
		t.Run(c.enrollment+", "+how, func(t *testing.T) {
			t.Parallel()
			c.arrives(t)
		})
	}
}

func (c late) arrives(t *testing.T) {
	l := startLab(t, lab.Options{Nodes: 1, Enrollment: c.enrollment})
	name := l.NodeNames()[0]
	release, started := heldHelper(t, l, map[string]any{"leader_election": true, "helper_timeout": "2m", "rpc_timeout": "5s"})
	dirs := [2]string{t.TempDir(), t.TempDir()}
	first, sent := c.standStill(t, l, dirs[0])

	second := startWatchWith(t, l, []string{storyMarker + "=" + dirs[1]}, "--state-dir", filepath.Join(dirs[1], "state"))
	await(t, "the helper of the next leader", func() bool { return started() == 1 })
	if got := len(carriedOut(t, l, name, c.action)); got != 1 {
		t.Fatalf("got %d times %s by the next leader, want 1", got, c.action)
	}

	sent()
	await(t, "the end of the first leader's work", func() bool {
		lines := readStory(t, dirs[0])
		return len(lines) > 0 && lines[len(lines)-1].What == "node done"
	})
	if c.frozen {
		await(t, "the late request at the node", func() bool {
			log, err := os.ReadFile(filepath.Join(l.NodeDir(name), "server.log"))
			return err == nil && strings.Contains(string(log), "too old") || len(carriedOut(t, l, name, c.action)) > 1
		})
	}
	release()
	await(t, "the restart", func() bool { return len(carriedOut(t, l, name, "choria_provision#restart")) == 1 })
	if got := len(carriedOut(t, l, name, c.action)); got != 1 {
		t.Errorf("got %d times %s on the node, want only that of the leader", got, c.action)
	}
	if got := inService(t, l); len(got) != 1 {
		t.Error("the node did not come into service")
	}
	for _, w := range []*watcher{first, second} {
		if code := w.signal(syscall.SIGTERM); code != 0 {
			t.Errorf("got exit code %d, want 0", code)
		}
	}
}

// standStill starts a leader and returns when it stands, and what has its
// request arrive.
func (c late) standStill(t *testing.T, l *lab.Lab, dir string) (w *watcher, sent func()) {
	t.Helper()
	args := []string{"--state-dir", filepath.Join(dir, "state")}
	stand := standMarker + "=stop:" + c.step
	path := (*link)(nil)
	if c.frozen {
		path = newLink(t, l)
		stand = standMarker + "=wait:" + c.step
		args = append(args, "--choria-config", path.choriaConfig(t, l))
	}
	w = startWatchWith(t, l, []string{storyMarker + "=" + dir, stand}, args...)
	await(t, "a leader with a sealed request", func() bool { return exists(filepath.Join(dir, standingFile)) })
	if !c.frozen {
		pid := w.cmd.Process.Pid
		await(t, "its stand", func() bool { return stopped(pid) })
		return w, func() {
			if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
				t.Fatal(err)
			}
		}
	}
	path.freeze()
	if err := os.WriteFile(filepath.Join(dir, goFile), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return w, path.thaw
}

// A leader that is told to end while a node is at its restart leads until that
// is done: the next one would find the node waiting and begin anew.
func TestTheLeadershipIsKeptUntilTheWorkIsDone(t *testing.T) {
	t.Parallel()
	l := startLab(t, lab.Options{Nodes: 1, Enrollment: lab.PKI})
	if err := l.SetConfig(map[string]any{"leader_election": true}); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	state := filepath.Join(dir, "state")
	w := startWatchWith(t, l, []string{storyMarker + "=" + dir, standMarker + "=wait:restart"}, "--state-dir", state)
	await(t, "a leader with a node at its restart", func() bool { return exists(filepath.Join(dir, standingFile)) })
	if err := w.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	store := installstate.NewStore(state)
	defer store.Close()
	lease := store.ElectionRevision
	for range 2 { // the first may have been under way
		before := lease()
		await(t, "a renewal of the lease", func() bool { return lease() != before })
	}
	if err := os.WriteFile(filepath.Join(dir, goFile), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if code := <-exitOf(w); code != 0 {
		t.Errorf("got exit code %d, want 0", code)
	}
	if got := inService(t, l); len(got) != 1 {
		t.Error("the node did not come into service")
	}
}

// exitOf gives the exit code of a watch that was told to end.
func exitOf(w *watcher) <-chan int {
	code := make(chan int, 1)
	go func() {
		<-w.exited
		code <- w.cmd.ProcessState.ExitCode()
	}()
	return code
}
