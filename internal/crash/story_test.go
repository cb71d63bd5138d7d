package crash

import (
	"fmt"
	"testing"

	"choria-provision/provision/installstate"
)

// story is one fleet whose provisioning is killed once and then repeated.
type story struct {
	t      *testing.T
	broker *broker // nil: the records are in a database
	fleet  *fleet
	store  *installstate.Store
	order  order
	killAt string // a point; empty: never

	points  []string // in order, over all processes
	times   map[string]int
	killed  bool
	claims  int64                          // of the killed run, as others saw them
	said    []string                       // by children, for when something is wrong
	records map[string]installstate.Record // as last seen
}

func newStory(t *testing.T, m *materials, enrollment string, on *broker) *story {
	t.Helper()
	dir := t.TempDir()
	o := m.order(dir, enrollment)
	o.Records = on.bucket(t)
	store, err := o.Records.open(dir, "observer.example.net")
	if err != nil {
		t.Fatal(err)
	}
	return &story{
		t: t, broker: on, fleet: newFleet(m, enrollment), store: store,
		order: o, times: map[string]int{}, records: map[string]installstate.Record{},
	}
}

// maxRuns is how many runs a story may take: the killed one, one that finds
// nodes held, one for each of the two parts of an upgrade, one to spare.
const maxRuns = 8

func (s *story) tell() {
	defer s.broker.remove(s.t, s.order.Records)
	for number := range maxRuns {
		if s.finished() {
			s.holdEnd()
			return
		}
		before := s.fleet.accepted()
		s.order.Host = fmt.Sprintf("host%d.example.net", number)
		s.run()
		// A minute later no hold is in the way, and no node that lingers does so
		// for that long.
		s.order.Force = number > 0 && before == s.fleet.accepted()
		s.fleet.later()
		s.holdAlways()
		if s.t.Failed() {
			return
		}
	}
	s.errorf("not finished after %d runs: %+v", maxRuns, s.records)
}

func (s *story) errorf(format string, args ...any) {
	s.t.Errorf("killed at %q: %s\n%s", s.killAt, fmt.Sprintf(format, args...), s.fleet.history())
	for _, text := range s.said {
		s.t.Log(text)
	}
}

// finished says that nothing is left to do: no node waits, every record is
// complete.
func (s *story) finished() bool {
	for _, name := range names {
		if s.records[name].Phase != installstate.Complete {
			return false
		}
	}
	return len(s.fleet.waiting()) == 0
}

// come counts a point and says whether it is the one to be killed at.
func (s *story) come(point string) bool {
	s.times[point]++
	point = fmt.Sprintf("%s (%d)", point, s.times[point])
	s.points = append(s.points, point)
	s.killed = s.killed || point == s.killAt
	return point == s.killAt
}
