package provision

import (
	"fmt"
	"slices"
	"testing"

	"choria-provision/discovery"
)

func TestHostsBeginWithOtherNodes(t *testing.T) {
	t.Parallel()
	var seen []discovery.Sighting
	for i := range 3000 {
		seen = append(seen, discovery.Sighting{Identity: fmt.Sprintf("web%d.example.net", i)})
	}
	if got := ranked("", seen); !slices.Equal(got, seen) {
		t.Error("a host that is alone changes the order")
	}
	first := map[string]int{} // hosts that begin with a node
	for _, host := range []string{"host1", "host2", "host3"} {
		order := ranked(host, seen)
		if again := ranked(host, order); !slices.Equal(again, order) {
			t.Errorf("%s has more than one order", host)
		}
		if len(order) != len(seen) {
			t.Fatalf("got %d nodes, want %d", len(order), len(seen))
		}
		for _, s := range order[:100] {
			first[s.Identity]++
		}
	}
	if len(first) < 280 { // three samples of 100 in 3000 have about 10 in common
		t.Errorf("three hosts begin with %d nodes in all, want nearly 300", len(first))
	}
}
