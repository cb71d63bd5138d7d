package discovery

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/choria-io/go-choria/lifecycle"
	"github.com/google/go-cmp/cmp"
)

// recorded keeps what a queue tells.
type recorded struct {
	admitted []string
	dropped  []string
	refused  map[string]error
}

func (r *recorded) tell(event any) {
	switch e := event.(type) {
	case Admitted:
		r.admitted = append(r.admitted, e.Identity)
	case Dropped:
		r.dropped = append(r.dropped, e.Identities...)
	case Refused:
		if r.refused == nil {
			r.refused = map[string]error{}
		}
		r.refused[e.Identity] = e.Err
	}
}

func TestQueueHoldsEachNodeOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var told recorded
		q := NewQueue(time.Minute, 10, told.tell)
		see := func(name string) { q.Add(Sighting{Identity: name, Seen: time.Now()}) }
		first := time.Now()
		see("a")
		time.Sleep(59 * time.Second)
		see("a") // younger than the interval: left as it is
		see("b")
		if diff := cmp.Diff([]string{"a", "b"}, told.admitted); diff != "" {
			t.Errorf("admitted (-want +got):\n%s", diff)
		}
		a, _ := q.Take(t.Context())
		if a.Identity != "a" || !a.Seen.Equal(first) {
			t.Errorf("got %+v, want a as it was seen first", a)
		}
		see("a") // with a worker
		if got := q.Waiting(); got != 1 {
			t.Errorf("got %d waiting, want 1", got)
		}
		q.Done("a")
		see("a")
		if diff := cmp.Diff([]string{"a", "b", "a"}, told.admitted); diff != "" {
			t.Errorf("admitted (-want +got):\n%s", diff)
		}
		time.Sleep(time.Minute)
		renewed := time.Now()
		see("b")
		if b, _ := q.Take(t.Context()); b.Identity != "b" || !b.Seen.Equal(renewed) {
			t.Errorf("got %+v, want b with its sighting renewed", b)
		}
	})
}

func TestFullQueueRefusesAndForgetsTheNewcomer(t *testing.T) {
	t.Parallel()
	var told recorded
	q := NewQueue(time.Minute, 2, told.tell)
	for _, name := range []string{"a", "b", "c"} {
		q.Add(Sighting{Identity: name, Seen: time.Now()})
	}
	if !errors.Is(told.refused["c"], ErrQueueFull) || q.Waiting() != 2 {
		t.Errorf("got refused %v and %d waiting, want c refused", told.refused, q.Waiting())
	}
	s, _ := q.Take(t.Context())
	q.Done(s.Identity)
	q.Add(Sighting{Identity: "c", Seen: time.Now()})
	if diff := cmp.Diff([]string{"a", "b", "c"}, told.admitted); diff != "" {
		t.Errorf("admitted (-want +got):\n%s", diff)
	}
}

func TestDropForgetsWaitingNodesOnly(t *testing.T) {
	t.Parallel()
	var told recorded
	q := NewQueue(time.Minute, 10, told.tell)
	for _, name := range []string{"a", "b", "c"} {
		q.Add(Sighting{Identity: name, Seen: time.Now()})
	}
	busy, _ := q.Take(t.Context())
	if diff := cmp.Diff([]string{"b", "c"}, q.Drop()); diff != "" {
		t.Errorf("dropped (-want +got):\n%s", diff)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if s, ok := q.Take(ended); ok {
		t.Errorf("got %v after the drop, want nothing", s)
	}
	q.Add(Sighting{Identity: busy.Identity, Seen: time.Now()})
	q.Add(Sighting{Identity: "b", Seen: time.Now()})
	if s, _ := q.Take(t.Context()); s.Identity != "b" {
		t.Errorf("got %v, want b again and not the busy node", s)
	}
}

func TestTakeWakesEveryWaiter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := NewQueue(time.Minute, 100, func(any) {})
		taken := make(chan string, 100)
		for range 20 {
			go func() {
				if s, ok := q.Take(t.Context()); ok {
					taken <- s.Identity
				}
			}()
		}
		synctest.Wait()
		for i := range 20 {
			q.Add(Sighting{Identity: fmt.Sprint(i), Seen: time.Now()})
		}
		synctest.Wait()
		if len(taken) != 20 {
			t.Errorf("got %d nodes taken, want 20", len(taken))
		}
	})
}

// bus is a Subscriber whose messages the test sends.
type bus struct {
	subject string
	take    func([]byte)
}

func (b *bus) Subscribe(subject string, take func([]byte)) (func(), error) {
	b.subject, b.take = subject, take
	return func() {}, nil
}

func TestOnlyStartupEventsOfTheComponentCount(t *testing.T) {
	t.Parallel()
	event := func(kind lifecycle.Type, component, identity string) []byte {
		e, err := lifecycle.New(kind, lifecycle.Component(component), lifecycle.Identity(identity), lifecycle.Version("1"))
		if err != nil {
			t.Fatal(err)
		}
		encoded, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		return encoded
	}
	var b bus
	var told recorded
	var seen []string
	end, err := Listen(&b, "provision_mode_server", func(s Sighting) { seen = append(seen, s.Identity) }, told.tell)
	if err != nil {
		t.Fatal(err)
	}
	defer end()
	if want := "choria.lifecycle.event.startup.provision_mode_server"; b.subject != want {
		t.Errorf("got subject %q, want %q", b.subject, want)
	}
	for _, data := range [][]byte{
		event(lifecycle.Startup, "provision_mode_server", "good.example.net"),
		event(lifecycle.Shutdown, "provision_mode_server", "leaving.example.net"),
		event(lifecycle.Startup, "server", "production.example.net"),
		event(lifecycle.Startup, "provision_mode_server", "a/../b"),
		[]byte("no event"), nil, []byte(`{"protocol":"io.choria.lifecycle.v1.startup"}`), make([]byte, maxEvent+1),
	} {
		b.take(data)
	}
	if diff := cmp.Diff([]string{"good.example.net"}, seen); diff != "" {
		t.Errorf("seen (-want +got):\n%s", diff)
	}
	if len(told.refused) != 1 || !errors.Is(told.refused["a/../b"], ErrInvalidIdentity) {
		t.Errorf("got refused %v, want the name no node can have", told.refused)
	}
}

func TestQueueGoesByTheNewInterval(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := NewQueue(time.Hour, 10, func(any) {})
		q.Add(Sighting{Identity: "a", Seen: time.Now()})
		q.SetInterval(time.Minute)
		time.Sleep(time.Minute)
		again := time.Now()
		q.Add(Sighting{Identity: "a", Seen: again})
		if a, _ := q.Take(t.Context()); !a.Seen.Equal(again) {
			t.Errorf("got %+v, want a as it was seen last", a)
		}
	})
}

func TestNodesThatAnsweredGoBeforeAnnouncedOnes(t *testing.T) {
	t.Parallel()
	var told recorded
	q := NewQueue(time.Minute, 4, told.tell)
	see := func(source Source, names ...string) {
		for _, name := range names {
			q.Add(Sighting{Identity: name, Seen: time.Now(), Source: source})
		}
	}
	see(ByEvent, "a", "b", "c")
	see(ByBroadcast, "x", "c") // c answers as well
	see(ByBroadcast, "y")      // the queue is full: a, the oldest announced one, goes
	see(ByEvent, "d")          // and there is no room for another announced one
	if diff := cmp.Diff([]string{"a"}, told.dropped); diff != "" {
		t.Errorf("dropped (-want +got):\n%s", diff)
	}
	if len(told.refused) != 1 || !errors.Is(told.refused["d"], ErrQueueFull) {
		t.Errorf("refused %v, want d", told.refused)
	}
	var order []string
	for q.Waiting() > 0 {
		s, _ := q.Take(t.Context())
		order = append(order, s.Identity)
		q.Done(s.Identity)
	}
	if diff := cmp.Diff([]string{"x", "c", "y", "b"}, order); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}

func TestACrowdIsOfAnnouncedNodesThatWait(t *testing.T) {
	t.Parallel()
	q := NewQueue(time.Minute, MaxQueue, func(any) {})
	add := func(source Source, from, to int) {
		for i := from; i < to; i++ {
			q.Add(Sighting{Identity: fmt.Sprint("node", i), Seen: time.Now(), Source: source})
		}
	}
	check := func(after string, want bool) {
		t.Helper()
		if got := q.Crowded(); got != want {
			t.Errorf("after %s: got crowded %v, want %v", after, got, want)
		}
	}
	add(ByBroadcast, 0, 2*Crowd)
	check("answers alone", false)
	add(ByEvent, 2*Crowd, 3*Crowd+1)
	check("announcements", true)
	add(ByBroadcast, 2*Crowd, 2*Crowd+1)
	check("one of them answered", false)
	add(ByEvent, 4*Crowd, 4*Crowd+1)
	check("another announcement", true)
	q.Drop()
	check("all were dropped", false)
}

func TestAnAnswerIsNotKeptOutByAnAnnouncementInOtherLetterCase(t *testing.T) {
	t.Parallel()
	var told recorded
	q := NewQueue(time.Minute, 10, told.tell)
	q.Add(Sighting{Identity: "WEB1", Seen: time.Now(), Source: ByEvent})
	q.Add(Sighting{Identity: "web1", Seen: time.Now(), Source: ByBroadcast})
	q.Add(Sighting{Identity: "Web1", Seen: time.Now(), Source: ByBroadcast})
	if diff := cmp.Diff([]string{"WEB1"}, told.dropped); diff != "" {
		t.Errorf("dropped (-want +got):\n%s", diff)
	}
	if s, _ := q.Take(t.Context()); s.Identity != "web1" || len(told.refused) != 1 || told.refused["Web1"] == nil {
		t.Errorf("got %v and refused %v, want web1, and Web1 refused", s, told.refused)
	}
	if q.Crowded() || q.Waiting() != 0 {
		t.Errorf("got %d waiting, want none", q.Waiting())
	}
}
