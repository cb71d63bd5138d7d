package discovery

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"choria-provision/internal/network"

	"github.com/google/go-cmp/cmp"
)

// answering is a Broadcaster with these answers, which takes a while.
type answering struct {
	names []string
	err   error
	took  time.Duration

	agent  string
	window network.Window
}

func (a *answering) Broadcast(_ context.Context, agent string, w network.Window) ([]string, error) {
	a.agent, a.window = agent, w
	time.Sleep(a.took)
	return a.names, a.err
}

// events keeps all that discovery tells, in order.
type events []any

func (e *events) tell(event any) { *e = append(*e, event) }

func identities(seen []Sighting) (names []string) {
	for _, s := range seen {
		names = append(names, s.Identity)
	}
	return names
}

// A broadcast asks for the agent that only waiting nodes run. It ends when
// nothing more is heard, and a large fleet is heard for ten times the timeout.
func TestPollAsksForWaitingNodesWithinBounds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &answering{names: []string{"a", "b", "a", "*", "*"}, took: 3 * time.Second}
		var told events
		began := time.Now()
		seen, err := Poll(t.Context(), b, 2*time.Second, told.tell)
		if err != nil || b.agent != "choria_provision" {
			t.Errorf("got %v from agent %q, want choria_provision", err, b.agent)
		}
		want := network.Window{First: 2 * time.Second, Quiet: 300 * time.Millisecond, Total: 20 * time.Second}
		if diff := cmp.Diff(want, b.window); diff != "" {
			t.Errorf("window (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"a", "b"}, identities(seen)); diff != "" {
			t.Errorf("seen (-want +got):\n%s", diff)
		}
		for _, s := range seen {
			if s.Source != ByBroadcast || !s.Seen.Equal(began.Add(3*time.Second)) {
				t.Errorf("%s: got %s at %s, want broadcast at the end of it", s.Identity, s.Source, s.Seen)
			}
		}
		if len(told) != 2 {
			t.Fatalf("got %d events, want the refusal and the end", len(told))
		}
		if r, ok := told[0].(Refused); !ok || r.Identity != "*" || r.Count != 2 || !errors.Is(r.Err, ErrInvalidIdentity) {
			t.Errorf("got %+v, want both answers of * refused once", told[0])
		}
		if c, ok := told[1].(Cycle); !ok || c.Answers != 5 || c.Took != 3*time.Second || c.Err != nil {
			t.Errorf("got %+v, want the end after five answers in 3s", told[1])
		}
	})
}

// Poll leaves it to others to say what is admitted; Broadcast admits all that is
// no duplicate.
func TestBroadcastTellsWhatItAdmits(t *testing.T) {
	t.Parallel()
	var told events
	seen, err := Broadcast(t.Context(), &answering{names: []string{"a", "b", "a", "c"}}, time.Second, told.tell)
	if err != nil || len(seen) != 3 {
		t.Errorf("got %v, %v, want three sightings", seen, err)
	}
	var admitted []string
	for _, event := range told {
		if a, ok := event.(Admitted); ok {
			admitted = append(admitted, a.Identity)
		}
	}
	if diff := cmp.Diff([]string{"b", "c"}, admitted); diff != "" {
		t.Errorf("admitted (-want +got):\n%s", diff)
	}
}

// A discovery that fails says why, with what it heard until then.
func TestAFailedDiscoveryEndsItsCycleWithTheError(t *testing.T) {
	t.Parallel()
	away := errors.New("the broker went away")
	var told events
	seen, err := Broadcast(t.Context(), &answering{names: []string{"a"}, err: away}, time.Second, told.tell)
	if !errors.Is(err, away) || len(seen) != 1 {
		t.Errorf("got %v, %v, want the one that answered and the error", seen, err)
	}
	if c, ok := told[0].(Cycle); !ok || !errors.Is(c.Err, away) || c.Answers != 1 {
		t.Errorf("got %+v, want the cycle with its error", told[0])
	}
}

func TestDuplicatesAreToldWithTheirNumber(t *testing.T) {
	t.Parallel()
	tests := []struct {
		names []string
		want  string
	}{
		{[]string{"a", "a", "a"}, "more than one machine claims this identity: 3 answers"},
		{[]string{"a", "A"}, "another machine claims this identity in other letter case: A, a"},
	}
	for _, tt := range tests {
		seen := Admit(tt.names, ByName, func(any) {})
		if seen[0].Err == nil || seen[0].Err.Error() != tt.want || seen[0].Source != ByName {
			t.Errorf("%v: got %v from %s, want %q", tt.names, seen[0].Err, seen[0].Source, tt.want)
		}
	}
}

// The longest name is that of DNS, to the byte.
func TestTheLongestIdentity(t *testing.T) {
	t.Parallel()
	for length, want := range map[int]bool{0: false, 1: true, 253: true, 254: false} {
		if got := ValidIdentity(strings.Repeat("a", length)); got != want {
			t.Errorf("%d bytes: got valid %v, want %v", length, got, want)
		}
	}
}

// A node that is taken and not worked on after all is told as dropped, and may
// come again at once.
func TestACancelledNodeMayComeAgain(t *testing.T) {
	t.Parallel()
	var told recorded
	q := NewQueue(time.Hour, 1, told.tell)
	q.Add(Sighting{Identity: "a", Seen: time.Now()})
	s, ok := q.Take(t.Context())
	if !ok {
		t.Fatal("took nothing")
	}
	q.Cancel(s.Identity)
	q.Add(Sighting{Identity: "a", Seen: time.Now()})
	if diff := cmp.Diff([]string{"a", "a"}, told.admitted); diff != "" || q.Waiting() != 1 {
		t.Errorf("%d waiting, admitted (-want +got):\n%s", q.Waiting(), diff)
	}
	if diff := cmp.Diff([]string{"a"}, told.dropped); diff != "" {
		t.Errorf("dropped (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"a"}, q.Drop()); diff != "" || len(told.dropped) != 2 {
		t.Errorf("told %v, dropped (-want +got):\n%s", told.dropped, diff)
	}
	if got := q.Drop(); got != nil || len(told.dropped) != 2 {
		t.Errorf("got %v dropped from an empty queue and %v told, want nothing", got, told.dropped)
	}
}
