// Package crash knows what must hold when a run is killed at the worst moment.
// Its tests run the product's Runner in child processes over nodes that live in
// the parent and so outlive every kill: a child says where it is and waits for
// leave to go on, or is killed there. It does not know the network; the kills on
// real servers are in commands.
package crash

import (
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"testing"
)

func TestMain(m *testing.M) {
	if order := os.Getenv(childMarker); order != "" {
		if err := runChild(order, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// names: the first node leaves as soon as it has answered its restart, the other
// one lingers and answers for one more run, as real servers do.
const (
	quick     = "quick.example.net"
	lingering = "lingering.example.net"
)

var names = []string{quick, lingering}

// TestKilledAtEveryPoint kills a run at each point it comes to, for each
// enrollment, and runs again until nothing is left to do.
func TestKilledAtEveryPoint(t *testing.T) {
	t.Parallel()
	killAllEnrollments(t, nil)
}

// tally counts over stories.
type tally struct{ told, kills, claims atomic.Int64 }

// killAllEnrollments keeps the records in buckets of the broker, without one in
// a database.
func killAllEnrollments(t *testing.T, on *broker) {
	t.Helper()
	var sum tally
	t.Run("enrollments", func(t *testing.T) {
		for _, enrollment := range enrollments {
			t.Run(enrollment, func(t *testing.T) {
				t.Parallel()
				killEverywhere(t, enrollment, on, &sum)
				sum.told.Add(1)
			})
		}
	})
	kills, claims := sum.kills.Load(), sum.claims.Load()
	t.Logf("%d kills, %d claims that outlived the process", kills, claims)
	if int(sum.told.Load()) == len(enrollments) && (kills < 200 || on != nil && claims < kills/2) {
		t.Errorf("got %d kills and %d claims, want at least 200 kills, on a broker most of them with a claim", kills, claims)
	}
}

// killEverywhere tells one story without a kill, and then one for each point of
// it, in which the run is killed there.
func killEverywhere(t *testing.T, enrollment string, on *broker, sum *tally) {
	t.Helper()
	materials := newMaterials(t)
	undisturbed := newStory(t, materials, enrollment, on)
	undisturbed.tell()
	holdPoints(t, undisturbed.points)
	for _, point := range undisturbed.points {
		if t.Failed() {
			return
		}
		s := newStory(t, materials, enrollment, on)
		s.killAt = point
		s.tell()
		if !s.killed {
			s.errorf("the run did not come there")
			return
		}
		sum.kills.Add(1)
		sum.claims.Add(s.claims)
	}
}

// holdPoints wants the worst moments among the points.
func holdPoints(t *testing.T, points []string) {
	t.Helper()
	for _, name := range names {
		for _, moment := range []string{
			"configure about to be sent", "configure answered", "configure done",
			"restart started", "restart about to be sent", "restart answered", "restart done", "node done",
		} {
			if point := name + ": " + moment + " (1)"; !slices.Contains(points, point) {
				t.Errorf("got points %q, want %q among them", points, point)
			}
		}
	}
}
