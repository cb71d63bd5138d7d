package output

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestFormatDuration(t *testing.T) {
	t.Parallel()
	tests := []struct {
		d    time.Duration
		want string
	}{
		{-time.Second, "0.0s"},
		{0, "0.0s"},
		{40 * time.Millisecond, "0.0s"},
		{50 * time.Millisecond, "0.1s"},
		{9940 * time.Millisecond, "9.9s"},
		{9960 * time.Millisecond, "10s"},
		{12300 * time.Millisecond, "12s"},
		{59700 * time.Millisecond, "59s"},
		{185 * time.Second, "3m5s"},
		{time.Hour - time.Millisecond, "1h0m"},
		{time.Hour - time.Second, "59m59s"},
		{7384 * time.Second, "2h3m"},
		{24*time.Hour - time.Second, "23h59m"},
		{24 * time.Hour, "1d0h"},
		{75*time.Hour + 59*time.Minute, "3d3h"},
	}
	for _, tt := range tests {
		if got := FormatDuration(tt.d); got != tt.want {
			t.Errorf("%v: got %s, want %s", tt.d, got, tt.want)
		}
	}
}

func TestSecondsComeBackToTheMillisecond(t *testing.T) {
	t.Parallel()
	for _, d := range []time.Duration{0, time.Millisecond, 1234 * time.Millisecond, 26 * time.Hour} {
		if got := FromSeconds(Seconds(d + 400*time.Microsecond)); got != d {
			t.Errorf("got %v, want %v", got, d)
		}
	}
}

func TestSecondsAreDecimal(t *testing.T) {
	t.Parallel()
	for ms := range 20_000 {
		want := fmt.Sprintf("%d.%03d", ms/1000, ms%1000)
		got := Seconds(time.Duration(ms) * time.Millisecond)
		if text := strconv.FormatFloat(got, 'f', -1, 64); !strings.HasPrefix(want, text) {
			t.Fatalf("got %s, want %s", text, want)
		}
	}
}

func TestPlural(t *testing.T) {
	t.Parallel()
	got := []string{plural(0, "node"), plural(1, "node"), plural(2, "answer")}
	if diff := cmp.Diff([]string{"0 nodes", "1 node", "2 answers"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestJSONIsIndentedAndNotEscapedForHTML(t *testing.T) {
	t.Parallel()
	var text bytes.Buffer
	if err := WriteJSON(&text, map[string]any{"a": "<b> & c", "list": []int{1}}); err != nil {
		t.Fatal(err)
	}
	want := "{\n  \"a\": \"<b> & c\",\n  \"list\": [\n    1\n  ]\n}\n"
	if diff := cmp.Diff(want, text.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	text.Reset()
	if err := WriteJSON(&text, make(chan int)); err == nil || text.Len() > 0 {
		t.Errorf("got %v and %q, want an error and nothing written", err, text.String())
	}
}
