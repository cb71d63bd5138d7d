package commands

import (
	"runtime/debug"
	"testing"
)

func TestModuleVersionIsTheOneBuiltWith(t *testing.T) {
	t.Parallel()
	info := &debug.BuildInfo{Deps: []*debug.Module{
		{Path: "example.net/a", Version: "v1.0.0"},
		{Path: "example.net/b", Version: "v2.0.0", Replace: &debug.Module{Path: "example.net/c", Version: "v3.0.0"}},
	}}
	tests := []struct{ name, path, want string }{
		{"plain", "example.net/a", "v1.0.0"},
		{"replaced", "example.net/b", "v3.0.0"},
		{"absent", "example.net/c", "unknown"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if got := moduleVersion(info, test.path); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}
