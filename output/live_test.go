package output

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"choria-provision/discovery"
	"choria-provision/provision"

	"github.com/charmbracelet/x/ansi"
)

// screen is a terminal that knows the few sequences the live view uses.
type screen struct {
	mu    sync.Mutex
	lines []string
	row   int
	all   bytes.Buffer
}

func (s *screen) Write(text []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all.Write(text)
	rest := string(text)
	for rest != "" {
		switch {
		case rest[0] == '\n':
			s.row++
			rest = rest[1:]
		case rest[0] == '\r': // to the first column, which is where lines begin anyway
			rest = rest[1:]
		case strings.HasPrefix(rest, "\x1b[2K"):
			if s.row < len(s.lines) {
				s.lines[s.row] = ""
			}
			rest = rest[4:]
		case strings.HasPrefix(rest, "\x1b[A"):
			s.row--
			rest = rest[3:]
		case rest[0] == '\x1b':
			panic("unknown sequence: " + rest)
		default:
			end := strings.IndexAny(rest, "\n\r\x1b")
			if end < 0 {
				end = len(rest)
			}
			for len(s.lines) <= s.row {
				s.lines = append(s.lines, "")
			}
			s.lines[s.row] += rest[:end]
			rest = rest[end:]
		}
	}
	return len(text), nil
}

func (s *screen) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.TrimRight(strings.Join(s.lines, "\n"), "\n")
}

func TestLiveViewOnTheScreen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var s screen
		l := newLive(&s, PageOptions{Color: "never"}, func() (int, int) { return 80, 24 })
		look := func(want string) {
			t.Helper()
			time.Sleep(2 * tick)
			synctest.Wait()
			if got := s.text(); got != want {
				t.Errorf("got screen:\n%s\nwant:\n%s", got, want)
			}
		}
		l.Observe(discovery.Admitted{})
		look("Discovering: 1 found, 0.2s")

		l.Observe(provision.RunStarted{Nodes: 2})
		l.Observe(provision.NodeStarted{Node: "web1"})
		l.Observe(provision.NodeStarted{Node: "web2"})
		l.Observe(provision.StepStarted{Node: "web2", Step: "jwt"})
		l.Observe(provision.NodeAssigned{Node: "web1"})
		l.Observe(provision.StepStarted{Node: "web1", Step: "configure"})
		fmt.Fprintln(l, "a log line")
		look("a log line\n░░░░░░░░░░░░░░░░░░░ 0 of 2, 0.4s\n  web1  configure      0.2s\n  1 at their first call, the longest for 0.2s")

		l.Observe(failed("web1", "configure", provision.ErrNoReply)[1])
		look("a log line\n█████████░░░░░░░░░░ 1 of 2, 0.6s, about 0.6s left\n  1 failed\n  last failure web1 at configure: the node did not answer in time\n  1 at their first call, the longest for 0.4s")

		fmt.Fprintln(l, "another")
		l.Close()
		fmt.Fprintln(l, "after the end")
		if got, want := s.text(), "a log line\nanother\nafter the end"; got != want {
			t.Errorf("got screen:\n%s\nwant:\n%s", got, want)
		}
		l.Close() // once more is fine
	})
}

// stuck is a terminal that takes nothing, as after Ctrl-S.
type stuck struct{ free chan struct{} }

func (s stuck) Write(text []byte) (int, error) { <-s.free; return len(text), nil }

func TestStuckTerminalStopsNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := stuck{make(chan struct{})}
		l := newLive(s, PageOptions{}, func() (int, int) { return 80, 24 })
		time.Sleep(2 * tick)
		synctest.Wait() // now it draws, and hangs
		for _, event := range smallRun() {
			l.Observe(event)
		}
		io.WriteString(l, "a log line\n") // returns, or the test deadlocks
		close(s.free)
		l.Close()
	})
}

func TestFrame(t *testing.T) {
	t.Parallel()
	model := newProgress(began)
	for _, event := range smallRun() {
		model.observe(event, began.Add(3*time.Second))
	}
	model.observe(provision.RunStarted{Nodes: 40}, began)
	for i := range 20 {
		node := fmt.Sprintf("worker%02d.example.net", i)
		model.observe(provision.NodeStarted{Node: node}, began)
		model.observe(provision.NodeAssigned{Node: node}, began.Add(time.Duration(i)*time.Second))
		model.observe(provision.StepStarted{Node: node, Step: "release_update"}, began.Add(time.Duration(i)*time.Second))
	}
	for _, width := range []int{60, 100, 160} {
		t.Run(fmt.Sprint(width), func(t *testing.T) {
			t.Parallel()
			p := NewPage(io.Discard, PageOptions{Color: "never", Width: width})
			lines := model.frame(p, began.Add(100*time.Second), 12)
			if len(lines) > 12 {
				t.Errorf("got %d lines, want at most 12", len(lines))
			}
			for _, line := range lines {
				if w := ansi.StringWidth(line); w > width {
					t.Errorf("got %d columns, want at most %d: %s", w, width, line)
				}
			}
			text := strings.Join(lines, "\n") + "\n"
			golden(t, fmt.Sprintf("frame-%d.golden", width), text)
			noEscapes(t, text)
		})
	}
}

func TestLines(t *testing.T) {
	t.Parallel()
	for name, options := range map[string]LineLogOptions{"lines": {}, "lines-quiet": {Quiet: true}, "lines-brief": {Brief: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var text bytes.Buffer
			lines := NewLineLog(&text, options)
			for _, event := range append(smallRun(), provision.Notice{Node: "web2.example.net", Step: "helper", Text: "no\treason"}) {
				lines.Observe(event)
			}
			golden(t, name+".golden", text.String())
			noEscapes(t, text.String())
		})
	}
}

func TestSilentNodesArePartOfNoEstimate(t *testing.T) {
	t.Parallel()
	began := time.Unix(0, 0)
	model := newProgress(began)
	model.observe(provision.RunStarted{Nodes: 4}, began)
	for _, node := range []string{"web1", "web2", "web3", "silent"} {
		model.observe(provision.NodeStarted{Node: node}, began)
	}
	check := func(after time.Duration, want string) {
		t.Helper()
		if got := model.estimate(began.Add(after)); got != want {
			t.Errorf("after %s: got %q, want %q", after, got, want)
		}
	}
	check(time.Second, "") // none is done: there is no pace yet
	model.observe(provision.NodeAssigned{Node: "web1"}, began)
	model.observe(provision.NodeAssigned{Node: "web2"}, began)
	model.observe(provision.NodeDone{Result: provision.Result{Node: "web1", Outcome: provision.Provisioned}}, began)
	check(time.Second, ", about 3.0s left")
	check(4*time.Second, ", about 4.0s left without the 2 silent")

	model.observe(provision.NodeAssigned{Node: "web3"}, began)
	model.observe(provision.NodeDone{Result: provision.Result{Node: "web2", Outcome: provision.Provisioned}}, began)
	model.observe(provision.NodeDone{Result: provision.Result{Node: "web3", Outcome: provision.Provisioned}}, began)
	check(2*time.Second, ", about 0.7s left")
	check(time.Minute, "") // only the silent one is left
}
