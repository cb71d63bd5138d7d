package fleet

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFaultsAreReadAndDealt(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Fault{
		"silent:0.1": {Silent, 0.1}, "slow:10%": {Slow, 0.1}, "dead:1": {Dead, 1}, "twin:0": {Twin, 0},
	} {
		if got, err := ParseFault(text); err != nil || got != want {
			t.Errorf("%s: got %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "silent", "silent:", "silent:2", "silent:-1", "silent:NaN", "angry:0.1", "slow:110%"} {
		if got, err := ParseFault(text); err == nil {
			t.Errorf("%q: got %v, want an error", text, got)
		}
	}
	dealt, err := deal(100, []Fault{{Silent, 0.25}, {Slow, 0.5}})
	if err != nil {
		t.Fatal(err)
	}
	counts := map[Kind]int{}
	for _, kind := range dealt {
		counts[kind]++
	}
	if diff := cmp.Diff(map[Kind]int{"": 25, Silent: 25, Slow: 50}, counts); diff != "" {
		t.Errorf("dealt (-want +got):\n%s", diff)
	}
	if _, err := deal(10, []Fault{{Silent, 0.6}, {Slow, 0.6}}); err == nil {
		t.Error("more than everybody: got no error, want one")
	}
}
