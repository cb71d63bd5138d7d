package config

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// The largest file that is read and the smallest that is not differ by one part,
// one bracket or one byte.
func TestBoundsOfAFileAreExact(t *testing.T) {
	t.Parallel()
	nested := func(depth int) string { return "a: " + strings.Repeat("[", depth) + strings.Repeat("]", depth) + "\n" }
	if problem := checkBounds(nested(maxDepth)); problem != nil {
		t.Errorf("%d brackets: got %v, want them read", maxDepth, problem)
	}
	if problem := checkBounds(nested(maxDepth + 1)); problem == nil || problem.Line != 1 || problem.Column != len("a: ")+maxDepth+1 {
		t.Errorf("%d brackets: got %+v, want the last one named", maxDepth+1, problem)
	}
	beside := "a: [" + strings.Repeat("[],", maxDepth*2) + "]\n"
	if problem := checkBounds(beside); problem != nil {
		t.Errorf("brackets beside each other: got %v, want them read", problem)
	}
	parts := func(count int) string { return strings.Repeat("- ", count) }
	if problem := checkBounds(parts(maxTokens)); problem != nil {
		t.Errorf("%d parts: got %v, want them read", maxTokens, problem)
	}
	if problem := checkBounds(parts(maxTokens + 1)); problem == nil || problem.Line != 1 || problem.Column != 2*maxTokens+1 {
		t.Errorf("%d parts: got %+v, want the first one too many named", maxTokens+1, problem)
	}
	comment := func(size int) string {
		return "helper: DIR/helper\n#" + strings.Repeat("x", size-len("helper: DIR/helper\n#"))
	}
	for size, fits := range map[int]bool{maxSource: true, maxSource + 1: false} {
		dir := site(t)
		text := comment(size + len("DIR") - len(dir)) // write puts the directory in place of DIR
		_, _, err := Load(write(t, dir, text), Overrides{Getenv: environment()})
		var invalid *Invalid
		if tooLarge := errors.As(err, &invalid) && strings.Contains(err.Error(), "is larger than 64 KiB"); tooLarge == fits {
			t.Errorf("%d bytes: got %v, want it read: %v", size, err, fits)
		}
	}
}

// The units beyond those of Go, each by its own length.
func TestUnitsOfADuration(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for text, want := range map[string]time.Duration{
		"1d": day, "1D": day, "1w": 7 * day, "1M": 30 * day, "1y": 365 * day, "1Y": 365 * day, "2.5d": 60 * time.Hour,
		"1m": time.Minute, "292y": 292 * 365 * day,
	} {
		if got, err := ParseDuration(text); err != nil || got.Duration != want {
			t.Errorf("%s: got %v, %v, want %v", text, got.Duration, err, want)
		}
	}
}
