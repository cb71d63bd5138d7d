package commands

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"choria-provision/internal/lab"
	"choria-provision/provision/installstate"
)

// moment is when and how a leader ends.
type moment struct {
	point string // of the story, or atHelper; empty: as soon as a node is at work
	how   syscall.Signal
}

// atHelper is while the helper of a node is at work: it has said so and waits.
const atHelper = "helper at work"

// moments are the ends that a leader comes to, in turn: the suite has the first
// three, PROVISION_TEST_ROUNDS=50 has them all seven times. A leader that is stopped
// stands still for longer than its lease lasts and then goes on, as a virtual
// machine does that was paused.
var moments = []moment{
	{"configure done", syscall.SIGKILL},
	{"", syscall.SIGTERM},
	{atHelper, syscall.SIGSTOP},
	{atHelper, syscall.SIGKILL},
	{"ed25519 done", syscall.SIGKILL}, // the record says installing, the node has new keys
	{"restart started", syscall.SIGKILL},
	{"restart done", syscall.SIGKILL}, // accepted, and the record is not complete
}

// takeovers is a lab with three instances of watch, each with a state directory of
// its own as on several hosts.
type takeovers struct {
	t       *testing.T
	l       *lab.Lab
	dir     string
	running map[int]*watcher
	ended   map[int][]time.Time        // by process: when it was killed or stood still
	waits   map[string][]time.Duration // until another led, by moment
	cut     int                        // nodes that had an interrupted sequence
	again   int                        // nodes that were configured by both
}

func (s *takeovers) stateDir(n int) string { return filepath.Join(s.dir, fmt.Sprint(n)) }

func (s *takeovers) start(n int) {
	s.running[n] = startWatchWith(s.t, s.l, []string{storyMarker + "=" + s.dir}, "--state-dir", s.stateDir(n))
}

func (s *takeovers) leader() int {
	for n, w := range s.running {
		if w.leads() {
			return n
		}
	}
	return -1
}

// ready says that one leads and all others stand by.
func (s *takeovers) ready() bool {
	for _, w := range s.running {
		if !strings.Contains(w.said(), "standing by") {
			return false
		}
	}
	return s.leader() >= 0
}

func (s *takeovers) write(name, text string) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o700); err != nil {
		s.t.Fatal(err)
	}
}

func (s *takeovers) remove(names ...string) {
	s.t.Helper()
	for _, name := range names {
		if err := os.Remove(filepath.Join(s.dir, name)); err != nil && !os.IsNotExist(err) {
			s.t.Fatal(err)
		}
	}
}

// What the helper of this test goes by.
const (
	holdFile    = "helpers-wait"
	waitingFile = "helper-waits"
)

// helper is the lab's, which says that it is at work and waits when it is told
// to.
func (s *takeovers) helper() string {
	s.write("helper.sh", fmt.Sprintf("cd %s\nif test -e %s; then\n : >%s\n while test -e %s; do sleep 0.05; done\nfi\nexec %s\n",
		s.dir, holdFile, waitingFile, holdFile, filepath.Join(s.l.Dir(), "bin", "lab-helper")))
	return "/bin/sh " + filepath.Join(s.dir, "helper.sh")
}

// arm has the leader stop at the moment.
func (s *takeovers) arm(m moment) {
	switch m.point {
	case "":
	case atHelper:
		s.write(holdFile, "")
	default:
		s.write(pointFile, m.point)
	}
}

// reached says that a leader came to the moment, in what was told since.
func (s *takeovers) reached(m moment, since int) bool {
	if m.point == atHelper {
		_, err := os.Stat(filepath.Join(s.dir, waitingFile))
		return err == nil && s.leader() >= 0
	}
	return slices.ContainsFunc(readStory(s.t, s.dir)[since:], func(line told) bool {
		return line.What == m.point || m.point == "" && line.What == "node started"
	})
}

// sendBack has all nodes wait again. Records of an earlier round would hold them
// for a minute.
func (s *takeovers) sendBack() {
	s.t.Helper()
	for n := range 3 {
		for _, name := range s.l.NodeNames() {
			if err := installstate.NewStore(s.stateDir(n)).Remove(name); err != nil && !errors.Is(err, installstate.ErrNotFound) {
				s.t.Fatal(err)
			}
		}
	}
	args := append([]string{"reset", "--reprovision", "--state-dir", filepath.Join(s.dir, "reset")}, s.l.NodeNames()...)
	if r := runIn(s.t, s.l, args...); r.code != 0 {
		s.t.Fatalf("got exit code %d\n%s%s", r.code, r.stdout, r.stderr)
	}
}

// counts is how often each node carried out an action.
func (s *takeovers) counts(action string) map[string]int {
	s.t.Helper()
	counts := map[string]int{}
	for _, name := range s.l.NodeNames() {
		counts[name] = len(carriedOut(s.t, s.l, name, action))
	}
	return counts
}

// round has nodes come, ends the leader at a moment and holds what the next one
// makes of it.
func (s *takeovers) round(number int, m moment) {
	s.t.Helper()
	since := len(readStory(s.t, s.dir))
	configured, restarted := s.counts("choria_provision#configure"), s.counts("choria_provision#restart")
	s.arm(m)
	if number == 0 { // they wait already
		for n := range 3 {
			s.start(n)
		}
	} else {
		await(s.t, "a leader and who stands by", s.ready)
		s.sendBack()
	}
	await(s.t, "a leader at "+m.point, func() bool { return s.reached(m, since) })
	gone := s.leader()
	w := s.running[gone]
	pid := w.cmd.Process.Pid
	began := time.Now()
	delete(s.running, gone)
	switch m.how {
	case syscall.SIGSTOP:
		if err := w.cmd.Process.Signal(m.how); err != nil {
			s.t.Fatal(err)
		}
	default:
		if code := w.signal(m.how); m.how == syscall.SIGTERM && code != 0 {
			s.t.Errorf("got exit code %d, want 0", code)
		}
	}
	s.ended[pid] = append(s.ended[pid], time.Now())
	s.remove(pointFile, holdFile, waitingFile)
	await(s.t, "another leader", func() bool { return s.leader() >= 0 })
	s.waits[m.String()] = append(s.waits[m.String()], time.Since(began))
	await(s.t, "all restarts", func() bool {
		now := s.counts("choria_provision#restart")
		return !slices.ContainsFunc(s.l.NodeNames(), func(name string) bool { return now[name] == restarted[name] })
	})
	if m.how == syscall.SIGSTOP {
		s.goOn(gone, w)
	} else {
		s.start(gone)
	}
	s.hold(number, m, pid, readStory(s.t, s.dir)[since:], configured, restarted)
}

func (m moment) String() string { return fmt.Sprintf("%s at %q", m.how, m.point) }

// goOn lets a leader that stood still go on: it must find out that another one
// leads before it asks a node for anything.
func (s *takeovers) goOn(n int, w *watcher) {
	s.t.Helper()
	awake := time.Now()
	if err := w.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		s.t.Fatal(err)
	}
	pid := w.cmd.Process.Pid
	await(s.t, "the end of its work", func() bool {
		for _, stint := range stints(readStory(s.t, s.dir), nil) {
			if stint.pid == pid && stint.end.IsZero() {
				return false
			}
		}
		return !w.leads()
	})
	for _, line := range readStory(s.t, s.dir) {
		if line.Pid == pid && line.Took > 0 && line.At.Add(-line.Took).After(awake) {
			s.t.Errorf("%s was asked for %s by a leader that had stood still", line.Node, line.What)
		}
	}
	s.running[n] = w
}

// hold wants each node in service, restarted once and configured once. The one
// exception: a node that was configured by a leader that did not live to have it
// restarted is configured again by the next one. Nobody can know that it was.
func (s *takeovers) hold(number int, m moment, pid int, lines []told, configured, restarted map[string]int) {
	s.t.Helper()
	if got := inService(s.t, s.l); len(got) != len(s.l.NodeNames()) {
		s.t.Fatalf("round %d, %s: in service: %v, want all", number, m, got)
	}
	nowConfigured, nowRestarted := s.counts("choria_provision#configure"), s.counts("choria_provision#restart")
	for _, name := range s.l.NodeNames() {
		once := map[string]bool{} // what the leader that ended had told of the node
		for _, line := range lines {
			if line.Pid == pid && line.Node == name {
				once[line.What] = true
			}
		}
		most := 1
		if m.how == syscall.SIGKILL && once["configure started"] && !once["restart done"] {
			most = 2
		}
		times := nowConfigured[name] - configured[name]
		if times < 1 || times > most {
			s.t.Errorf("round %d, %s: %s was configured %d times, want at most %d", number, m, name, times, most)
		}
		if times := nowRestarted[name] - restarted[name]; times != 1 {
			s.t.Errorf("round %d, %s: %s was restarted %d times, want once", number, m, name, times)
		}
		if once["node started"] && !once["node done"] {
			s.cut++
		}
		s.again += times - 1
	}
}

func TestAnotherInstanceTakesOver(t *testing.T) {
	t.Parallel()
	rounds := 3
	if text := os.Getenv("PROVISION_TEST_ROUNDS"); text != "" {
		if _, err := fmt.Sscan(text, &rounds); err != nil {
			t.Fatal(err)
		}
	}
	s := &takeovers{
		t: t, l: startLab(t, lab.Options{Nodes: 3, Enrollment: lab.Issuer}), dir: t.TempDir(),
		running: map[int]*watcher{}, ended: map[int][]time.Time{}, waits: map[string][]time.Duration{},
	}
	if err := s.l.SetConfig(map[string]any{"leader_election": true, "interval": "1m", "helper_timeout": "1m", "helper": s.helper()}); err != nil {
		t.Fatal(err)
	}
	for round := range rounds {
		s.round(round, moments[round%len(moments)])
		if t.Failed() {
			break
		}
	}
	await(t, "a leader and who stands by", s.ready)
	for n, w := range s.running {
		if code := w.signal(syscall.SIGTERM); code != 0 {
			t.Errorf("instance %d: got exit code %d, want 0", n, code)
		}
	}
	list := stints(readStory(t, s.dir), s.ended)
	for _, pair := range overlapping(list) {
		t.Errorf("two leaders at one node: %s", pair)
	}
	t.Logf("%d rounds, %d sequences of which %d were cut off; %d nodes configured by two leaders, one after the other's death", rounds, len(list), s.cut, s.again)
	for moment, waits := range s.waits {
		t.Logf("%s: another led after %s (the entry's TTL is 10s)", moment, waits)
	}
}
