package fleet

import (
	"strings"
	"testing"
)

func TestHarmIsToldFromWorkNotDone(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		r    Report
		want string
	}{
		{"all well", Report{Groups: []Group{{Nodes: 3, Once: 3, Restarted: 3}}}, ""},
		{"not done", Report{Groups: []Group{{Nodes: 3, Untouched: 3}}}, ""},
		{"twice", Report{Groups: []Group{{Nodes: 3, Once: 2, More: 1}}}, "more often"},
		{"half", Report{Groups: []Group{{Nodes: 3, Once: 2, Half: 1}}}, "not restarted"},
		{"a twin", Report{Groups: []Group{{Kind: Twin, Nodes: 3, Untouched: 2, Once: 1}}}, "1 twin nodes were configured"},
		{"seen", Report{Troubled: 1, Problems: []string{"sim1: odd"}}, "sim1: odd"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			err := test.r.Check()
			if (test.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}
