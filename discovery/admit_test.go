package discovery

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAdmitTakesEachMachineOnce(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 254)
	tests := []struct {
		name    string
		senders []string
		want    []string
		refused map[string]error
	}{
		{name: "nobody"},
		{name: "in the order they answered", senders: []string{"b.example.net", "a.example.net"}, want: []string{"b.example.net", "a.example.net"}},
		{name: "twins are both refused", senders: []string{"a", "b", "a"}, want: []string{"b"}, refused: map[string]error{"a": ErrTwins}},
		{name: "triplets are told once", senders: []string{"a", "a", "a"}, refused: map[string]error{"a": ErrTwins}},
		{name: "names that differ by letter case are all refused", senders: []string{"a", "b", "A"}, want: []string{"b"}, refused: map[string]error{"a": ErrOtherCase, "A": ErrOtherCase}},
		{name: "twins that differ by letter case as well", senders: []string{"a", "A", "a"}, refused: map[string]error{"a": ErrOtherCase, "A": ErrOtherCase}},
		{name: "a name in capitals is one", senders: []string{"A.Example.Net"}, want: []string{"A.Example.Net"}},
		{
			name:    "what no node can be called",
			senders: []string{"", ".", "..", "a.", ".a", "a..b", "*", "a.>", "a b", "a/../b", "-rf", "a\n", "a\x00", "é", long},
			refused: map[string]error{
				"": ErrInvalidIdentity, ".": ErrInvalidIdentity, "..": ErrInvalidIdentity, "a.": ErrInvalidIdentity,
				".a": ErrInvalidIdentity, "a..b": ErrInvalidIdentity, "*": ErrInvalidIdentity, "a.>": ErrInvalidIdentity,
				"a b": ErrInvalidIdentity, "a/../b": ErrInvalidIdentity, "-rf": ErrInvalidIdentity, "a\n": ErrInvalidIdentity,
				"a\x00": ErrInvalidIdentity, "é": ErrInvalidIdentity, long: ErrInvalidIdentity,
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			refused := map[string]error{}
			var told []string
			got := Admit(tt.senders, ByBroadcast, func(event any) {
				switch e := event.(type) {
				case Refused:
					if errors.Is(e.Err, ErrTwins) || errors.Is(e.Err, ErrOtherCase) {
						t.Errorf("%q was told as refused, want its sighting alone", e.Identity)
					}
					if refused[e.Identity] != nil {
						t.Errorf("%q was refused twice", e.Identity)
					}
					refused[e.Identity] = e.Err
				case Admitted:
					told = append(told, e.Identity)
				}
			})
			var names []string
			for _, s := range got {
				if s.Err != nil {
					if refused[s.Identity] != nil {
						t.Errorf("%q is there twice", s.Identity)
					}
					refused[s.Identity] = s.Err
					continue
				}
				names = append(names, s.Identity)
			}
			if diff := cmp.Diff(tt.want, names); diff != "" {
				t.Errorf("admitted (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(names, told); diff != "" {
				t.Errorf("told differs from returned:\n%s", diff)
			}
			if len(refused) != len(tt.refused) {
				t.Errorf("refused %v, want %v", refused, tt.refused)
			}
			for name, want := range tt.refused {
				if !errors.Is(refused[name], want) {
					t.Errorf("%q: got %v, want %v", name, refused[name], want)
				}
			}
		})
	}
}

func FuzzValidIdentityIsOneSubjectPath(f *testing.F) {
	f.Add("a.example.net")
	f.Add("*.>")
	f.Fuzz(func(t *testing.T, name string) {
		if ValidIdentity(name) && (name == "" || strings.ContainsAny(name, "*> \t\r\n\x00/\\") || strings.Contains(name, "..")) {
			t.Errorf("%q passes as an identity", name)
		}
	})
}

func TestMatch(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		patterns []string
		in       string
		want     bool
	}{
		{"no pattern wants everybody", nil, "a", true},
		{"a name", []string{"web1"}, "web1", true},
		{"a glob", []string{"web*.example.net"}, "web1.example.net", true},
		{"a glob is the whole name", []string{"web"}, "web1", false},
		{"an expression is anywhere", []string{"/b[12]/"}, "web1", true},
		{"an anchored expression", []string{"/^eb/"}, "web1", false},
		{"one of several", []string{"db*", "web*"}, "web1", true},
		{"none of several", []string{"db*", "mail*"}, "web1", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			match, err := ParseMatch(tt.patterns)
			if err != nil {
				t.Fatal(err)
			}
			if got := match(tt.in); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
	for _, bad := range []string{"", "[", "/(/"} {
		if _, err := ParseMatch([]string{bad}); err == nil || !strings.Contains(err.Error(), bad) {
			t.Errorf("pattern %q: got %v, want an error that names it", bad, err)
		}
	}
}
