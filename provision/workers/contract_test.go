package workers_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"choria-provision/provision/workers"
)

// counted is a node that knows how often it was called.
type counted struct {
	answers       bool
	first, finish atomic.Int32
}

func (c *counted) FirstCall(context.Context) bool {
	c.first.Add(1)
	return c.answers
}

func (c *counted) Finish(context.Context) { c.finish.Add(1) }

// Each node is called once, and finished once if it answered: a call too many
// would be a second installation.
func TestEachNodeIsCalledAndFinishedOnce(t *testing.T) {
	t.Parallel()
	for _, limit := range []int{-1, 0, 1, 3, 100} {
		var nodes []workers.Node
		for i := range 50 {
			nodes = append(nodes, &counted{answers: i%3 != 0})
		}
		workers.New(limit).Run(t.Context(), t.Context(), slices.Values(nodes))
		for i, n := range nodes {
			c := n.(*counted)
			want := int32(0)
			if c.answers {
				want = 1
			}
			if first, finish := c.first.Load(), c.finish.Load(); first != 1 || finish != want {
				t.Errorf("%d workers, node %d: called %d times and finished %d times, want 1 and %d", limit, i, first, finish, want)
			}
		}
	}
}

// A pool of no workers works as one of one does.
func TestAPoolHasOneWorkerAtLeast(t *testing.T) {
	t.Parallel()
	for _, limit := range []int{-1, 0, 1} {
		synctest.Test(t, func(t *testing.T) {
			var s site
			took := run(t, limit, slices.Values(s.live(5, 0, time.Second)))
			if took != 5*time.Second || s.max.working != 1 || s.max.waiting > 1+workers.Ahead {
				t.Errorf("%d workers: took %s with %+v at most, want 5s with one at work", limit, took, s.max)
			}
		})
	}
}

// The end of all work ends calls and work under way, and leaves no node behind.
func TestTheEndOfAllWorkEndsEveryNode(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var s site
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		taken := 0
		began := time.Now()
		workers.New(2).Run(ctx, t.Context(), func(yield func(workers.Node) bool) {
			for _, n := range append(s.live(2, 0, time.Hour), s.live(2000, time.Hour, 0)...) {
				if taken++; !yield(n) {
					return
				}
			}
		})
		if took := time.Since(began); took != 5*time.Second || s.now != (counts{}) {
			t.Errorf("took %s and left %+v, want nothing after 5s", took, s.now)
		}
		if len(s.order) != 2 || taken >= 2002 {
			t.Errorf("finished %d of %d taken, want the two that answered, and some never taken", len(s.order), taken)
		}
	})
}
