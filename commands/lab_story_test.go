package commands

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"choria-provision/provision"
)

// storyMarker makes this program a watch that writes down in a directory, while
// it happens, what it does; see runWatchTelling.
const storyMarker = "PROVISION_TEST_STORY"

const (
	storyFile = "story.jsonl" // of all instances
	pointFile = "stand-still" // the point at which who comes there stands still
)

// told is one line of the story.
type told struct {
	At         time.Time
	Pid        int
	Node, What string
	Took       time.Duration // of an attempt, which began that long before
}

// teller writes the story of one process.
type teller struct {
	dir string
	mu  sync.Mutex
}

// observe writes down an event before anybody acts on it. At the point in
// question the process stands still for ever, with all that it has in hand: it
// is as exactly there as the kill that follows wants it.
func (s *teller) observe(event any) {
	line := told{At: time.Now(), Pid: os.Getpid()}
	switch e := event.(type) {
	case provision.NodeStarted:
		line.Node, line.What = e.Node, "node started"
	case provision.StepStarted:
		line.Node, line.What = e.Node, e.Step+" started"
	case provision.StepDone:
		line.Node, line.What = e.Node, e.Step+" done"
		if e.Err != nil {
			line.What = e.Step + " failed"
		}
	case provision.Attempt:
		line.Node, line.What, line.Took = e.Node, e.Action, e.Took
	case provision.NodeDone:
		line.Node, line.What = e.Node, "node done"
	default:
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.write(line)
	if point, err := os.ReadFile(filepath.Join(s.dir, pointFile)); err == nil && string(point) == line.What {
		select {}
	}
}

func (s *teller) write(line told) {
	text, err := json.Marshal(line)
	if err != nil {
		panic(err)
	}
	file, err := os.OpenFile(filepath.Join(s.dir, storyFile), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		panic(err)
	}
	defer file.Close()
	if _, err := file.Write(append(text, '\n')); err != nil {
		panic(err)
	}
}

// runWatchTelling is `watch` as runWatch does it, with one observer more.
func runWatchTelling(stop context.Context, args []string, streams Streams, dir string) int {
	a := newApp(streams)
	if err := a.parse(args); err != nil {
		return a.fail(err)
	}
	return a.fail(func() error {
		w, err := a.prepareWatch(stop, watchOptions{cycleOptions: cycleOptions{command: "watch", alone: true}})
		if err != nil {
			return err
		}
		defer w.close()
		story, tell := &teller{dir: dir}, w.tell
		stand := newStanding(w, dir, os.Getenv(standMarker))
		w.tell = func(event any) {
			story.observe(event)
			stand.observe(event)
			tell(event)
		}
		w.seen.tell = w.tell
		return w.run()
	}())
}

// readStory reads what was told so far.
func readStory(t *testing.T, dir string) (lines []told) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, storyFile))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for text := range strings.Lines(string(text)) {
		if !strings.HasSuffix(text, "\n") {
			break // half written
		}
		var line told
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		lines = append(lines, line)
	}
	return lines
}

// stint is one process's work on one node.
type stint struct {
	pid        int
	node       string
	begin, end time.Time // a zero end: it goes on
}

// within says that the moment came before the stint was over.
func (s stint) within(at time.Time) bool { return s.end.IsZero() || at.Before(s.end) }

// stints are all of them. A process that was killed, or stood still, was at
// work until then.
func stints(lines []told, ended map[int][]time.Time) (list []stint) {
	open := map[string]int{}
	for _, line := range lines {
		key := fmt.Sprint(line.Pid, " ", line.Node)
		switch line.What {
		case "node started":
			open[key] = len(list)
			list = append(list, stint{line.Pid, line.Node, line.At, firstAfter(ended[line.Pid], line.At)})
		case "node done":
			if at := open[key]; list[at].end.IsZero() || line.At.Before(list[at].end) {
				list[at].end = line.At
			}
		}
	}
	return list
}

func firstAfter(times []time.Time, begin time.Time) time.Time {
	for _, at := range times {
		if at.After(begin) {
			return at
		}
	}
	return time.Time{}
}

// overlapping are pairs of processes that worked on one node at once.
func overlapping(list []stint) (pairs []string) {
	for i, a := range list {
		for _, b := range list[i+1:] {
			if a.node == b.node && a.pid != b.pid && b.within(a.begin) && a.within(b.begin) {
				pairs = append(pairs, fmt.Sprintf("%s: %+v and %+v", a.node, a, b))
			}
		}
	}
	return pairs
}

// The takeover test leans on this: it must see two at one node, also when one of
// them has not ended.
func TestOverlappingStintsAreSeen(t *testing.T) {
	t.Parallel()
	at := func(second int) time.Time { return time.Unix(int64(second), 0) }
	tests := []struct {
		name string
		a, b stint
		want int
	}{
		{"one after the other", stint{1, "n", at(1), at(2)}, stint{2, "n", at(3), at(4)}, 0},
		{"both at once", stint{1, "n", at(1), at(3)}, stint{2, "n", at(2), at(4)}, 1},
		{"the first goes on", stint{1, "n", at(1), time.Time{}}, stint{2, "n", at(2), at(4)}, 1},
		{"the second goes on", stint{1, "n", at(1), at(3)}, stint{2, "n", at(2), time.Time{}}, 1},
		{"the second begins later and goes on", stint{1, "n", at(1), at(2)}, stint{2, "n", at(3), time.Time{}}, 0},
		{"two nodes", stint{1, "n", at(1), at(3)}, stint{2, "m", at(2), at(4)}, 0},
		{"one process", stint{1, "n", at(1), at(3)}, stint{1, "n", at(2), at(4)}, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := overlapping([]stint{tt.a, tt.b}); len(got) != tt.want {
				t.Errorf("got %v, want %d pairs", got, tt.want)
			}
		})
	}
}
