package output

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestEscapeShowsWhatWouldDeceive(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, text, want string }{
		{"plain text stays", "web1.example.net", "web1.example.net"},
		{"other scripts stay", "Zürich 東京", "Zürich 東京"},
		{"backslashes stay", `C:\choria`, `C:\choria`},
		{"escape sequences", "\x1b[2Jgone", `\x1b[2Jgone`},
		{"line ends and tabs", "a\r\nb\tc", `a\r\nb\tc`},
		{"NUL and DEL", "a\x00b\x7fc", `a\x00b\x7fc`},
		{"C1", "a\u009bb", `a\u009bb`},
		{"direction overrides", "a\u202eb\u2066c", `a\u202eb\u2066c`},
		{"zero width", "web\u200b1", `web\u200b1`},
		{"line separator", "a\u2028b", `a\u2028b`},
		{"invalid UTF-8", "a\xff\xc3b", `a\xff\xc3b`},
		{"a replacement character is a character", "a\uFFFDb", "a\uFFFDb"},
		{"a JWT", "got eyJhbGciOiJSUzI1NiJ9.eyJjaHQiOiJ4In0.c2ln_bmF0dXJl, no", "got ****, no"},
		{"a private key", "a -----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----\nb", `a ****\nb`},
		{"the head of a private key", "a -----BEGIN PRIVATE KEY-----\nMIIE", "a ****"},
		{"a certificate is none", "-----BEGIN CERTIFICATE-----", "-----BEGIN CERTIFICATE-----"},
		{"beyond the basic plane", "a\U000e0001b", `a\U000e0001b`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := Escape(tt.text); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestEscapeToBoundsTheText(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, text string
		limit      int
		want       string
	}{
		{"short", "abc", 3, "abc"},
		{"long", "abcd", 3, "abc…"},
		{"counts runes", "äöü", 3, "äöü"},
		{"never cuts a rune", "äöüß", 3, "äöü…"},
		{"counts before escaping", "\x00\x00\x00", 2, `\x00\x00…`},
		{"megabytes", strings.Repeat("x", 1<<22), 1, "x…"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := EscapeTo(tt.text, tt.limit); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func FuzzEscapeLeavesOnlyPrintableText(f *testing.F) {
	for _, seed := range []string{"", "web1", "\x1b[0m", "\xff\xfe", "a\u202eb", "\u0085", "\uFFFD\xff"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got := Escape(text)
		if !utf8.ValidString(got) {
			t.Fatalf("got %q, want valid UTF-8", got)
		}
		for _, r := range got {
			if !unicode.IsPrint(r) {
				t.Fatalf("got %q, want no %U", got, r)
			}
		}
		if again := Escape(got); again != got {
			t.Fatalf("got %q when escaped twice, want %q", again, got)
		}
		if bounded := EscapeTo(text, 10); utf8.RuneCountInString(bounded) > 10*10+1 {
			t.Fatalf("got %d runes, want a bounded text", utf8.RuneCountInString(bounded))
		}
	})
}
