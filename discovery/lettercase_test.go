package discovery

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Two nodes whose names differ by letter case alone would get certificates for
// one name; the message tells an operator which names are meant.
func TestNamesThatDifferByCaseAreTold(t *testing.T) {
	t.Parallel()
	seen := Admit([]string{"A.Example.Net", "a.example.net", "b.example.net"}, ByBroadcast, func(any) {})
	var refused []string
	for _, s := range seen {
		var duplicate *Duplicate
		if errors.As(s.Err, &duplicate) {
			refused = append(refused, s.Identity)
			if duplicate.Count != 2 || !strings.Contains(s.Err.Error(), "A.Example.Net, a.example.net") {
				t.Errorf("%s: got %d answers and %q, want both names", s.Identity, duplicate.Count, s.Err)
			}
		}
	}
	if diff := cmp.Diff([]string{"A.Example.Net", "a.example.net"}, refused); diff != "" {
		t.Errorf("refused (-want +got):\n%s", diff)
	}
}

// Events bring one name at a time: the second spelling is refused while the
// first one waits or is worked on, and is a node of its own afterwards.
func TestQueueRefusesANameInOtherCase(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var told recorded
		q := NewQueue(time.Minute, 10, told.tell)
		q.Add(Sighting{Identity: "a", Seen: time.Now()})
		q.Add(Sighting{Identity: "A", Seen: time.Now()})
		if !errors.Is(told.refused["A"], ErrOtherCase) || q.Waiting() != 1 {
			t.Errorf("got refused %v and %d waiting, want A refused", told.refused, q.Waiting())
		}
		if s, _ := q.Take(t.Context()); s.Identity != "a" {
			t.Errorf("took %q, want a", s.Identity)
		}
		delete(told.refused, "A")
		q.Add(Sighting{Identity: "A", Seen: time.Now()})
		if !errors.Is(told.refused["A"], ErrOtherCase) {
			t.Errorf("got refused %v while a is worked on, want A", told.refused)
		}
		q.Done("A") // which no worker has
		if q.Add(Sighting{Identity: "A", Seen: time.Now()}); q.Waiting() != 0 {
			t.Error("A waits while a is worked on")
		}
		q.Done("a")
		q.Add(Sighting{Identity: "A", Seen: time.Now()})
		if s, _ := q.Take(t.Context()); s.Identity != "A" {
			t.Errorf("took %q, want A", s.Identity)
		}
		if diff := cmp.Diff([]string{"a", "A"}, told.admitted); diff != "" {
			t.Errorf("admitted (-want +got):\n%s", diff)
		}
	})
}
