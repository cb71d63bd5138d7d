package installstate

import (
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestEscape(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 300)
	tests := []struct{ name, machine, want string }{
		{"host name", "n1.example-net_2", "n1.example-net_2"},
		{"upper case", "N1", "%4e1"},
		{"nothing", "", "%"},
		{"this directory", ".", "%2e"},
		{"the one above", "..", "%2e."},
		{"out of here", "../../etc/passwd", "%2e.%2f..%2fetc%2fpasswd"},
		{"hidden", ".ssh", "%2essh"},
		{"absolute", "/etc", "%2fetc"},
		{"NUL and newline", "a\x00\n", "a%00%0a"},
		{"escaped already", "%2e", "%252e"},
		{"longest that fits", long[:255], long[:255]},
		{"too long", long, long[:189] + "%_9835fa6bf4e20a9b9ea812506302e98982721a6cf8d2cae67af57129bf21ae90"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if got := escape(test.machine); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

// machines draws names of any bytes, short ones and ones around the limit.
func machines() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.String(),
		rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }),
		rapid.StringMatching(`[aA.%/]{0,6}`),
		rapid.StringMatching(`[aA]{80,300}`),
	)
}

func TestEscapedNamesAreSafeFileNames(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		machine := machines().Draw(t, "machine")
		name := escape(machine)
		if name == "" || name[0] == '.' || len(name) > maxName || filepath.Base(name) != name {
			t.Fatalf("got %q, want a plain file name", name)
		}
		if strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-_.%") != "" {
			t.Fatalf("got %q, want nothing but safe characters", name)
		}
	})
}

func TestUnescapeReversesEscape(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		machine := machines().Draw(t, "machine")
		name := escape(machine)
		got, ok := unescape(name)
		switch {
		case isHashed(name):
			if ok {
				t.Fatalf("got %q for a shortened name, want none", got)
			}
		case machine != "" && (!ok || got != machine):
			t.Fatalf("got %q %v, want %q", got, ok, machine)
		}
	})
}

func TestDifferentMachinesNeverShareAName(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b := machines().Draw(t, "a"), machines().Draw(t, "b")
		if a != b && strings.EqualFold(escape(a), escape(b)) {
			t.Fatalf("got %q for both %q and %q", escape(a), a, b)
		}
	})
}

func TestUnescapeTakesOnlyWhatEscapeMakes(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "%", "%4", "%zz", "N1", "%41%", "%61", ".a", "a/b", "%4E"} {
		if got, ok := unescape(name); ok {
			t.Errorf("got %q for %q, want none", got, name)
		}
	}
}
