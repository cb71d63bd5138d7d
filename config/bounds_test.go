package config

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
)

// The time the YAML parser takes grows with the square of what a file holds:
// 20,000 brackets took seconds and most of a gigabyte, 500,000 never ended.
func TestFilesThatWouldKeepTheParserBusyAreRefused(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, text, want string }{
		{"brackets", "helper: /bin/true\nsite: " + strings.Repeat("[", 20_000), "2:39: error: brackets are nested more than 32 deep"},
		{"braces", "site: " + strings.Repeat("{a: ", 5000), "1:135: error: brackets are nested more than 32 deep"},
		{"closed brackets", "site: " + strings.Repeat("[", 9000) + strings.Repeat("]", 9000), "1:39: error: brackets are nested more than 32 deep"},
		{"dashes", strings.Repeat("- ", 20_000), "the file has more than 10000 parts"},
		{"keys", strings.Repeat("a:\n", 20_000), "the file has more than 10000 parts"},
		{"questions", strings.Repeat("? ", 20_000), "the file has more than 10000 parts"},
		{"half a million brackets", "site: " + strings.Repeat("[", 500_000), "is larger than 64 KiB"},
		{"a long text", "site: " + strings.Repeat("x", 70_000), "is larger than 64 KiB"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			_, _, err := Load(write(t, t.TempDir(), test.text), Overrides{Keys: testKeys, Getenv: environment()})
			var invalid *Invalid
			if !errors.As(err, &invalid) || !strings.Contains(err.Error(), test.want) || len(invalid.Problems) != 1 {
				t.Fatalf("got %.300v, want *Invalid with %q alone", err, test.want)
			}
		})
	}
}

func TestBracketsInTextAreNotNesting(t *testing.T) {
	t.Parallel()
	many := strings.Repeat("[", 100)
	cfg, _ := load(t, "helper: DIR/helper # "+many+"\nrego_policy: a"+many+"\nlogfile: '"+many+"'\n")
	if filepath.Base(cfg.LogFile) != many {
		t.Errorf("got %q, want %q", cfg.LogFile, many)
	}
}
