package config

import (
	"testing"
	"time"

	"github.com/choria-io/go-choria/choria"
	"pgregory.net/rapid"
)

func TestDurationsAreReadAsGoChoriaReadsThem(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"1m", "90s", "1h30m", "500ms", "10h", "0s", "1d", "2D", "1w", "1W", "3M", "1y", "2Y", "0.5d", " 1m "} {
		want, err := choria.ParseDuration(text)
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		got, err := ParseDuration(text)
		if err != nil || got.Duration != want {
			t.Errorf("%q: got %v and error %v, want %v", text, got, err, want)
		}
	}
}

func TestWhatIsNoDurationIsRefused(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", " ", "60", "m", "d", "1x", "1d2h", "-1m", "-1d", "NaNd", "infd", "-infd", "1e400d", "293y", "1000y", "1 d", "0x1", "1_0m"} {
		if got, err := ParseDuration(text); err == nil {
			t.Errorf("%q: got %v, want an error", text, got)
		}
	}
}

func TestDurationsArePrintedShort(t *testing.T) {
	t.Parallel()
	tests := map[time.Duration]string{
		0: "0s", time.Second: "1s", time.Minute: "1m", 90 * time.Second: "1m30s", 2 * time.Hour: "2h",
		time.Hour + time.Second: "1h0m1s", 24 * time.Hour: "1d", 365 * 24 * time.Hour: "1y", 730 * 24 * time.Hour: "2y", 20 * time.Minute: "20m", 36 * time.Hour: "36h",
	}
	for d, want := range tests {
		if got := (Duration{d}).String(); got != want {
			t.Errorf("%v: got %s, want %s", d, got, want)
		}
	}
}

func TestPrintedDurationsAreReadBack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := Duration{time.Duration(rapid.Int64Min(0).Draw(t, "nanoseconds"))}
		if got, err := ParseDuration(want.String()); err != nil || got != want {
			t.Errorf("%s: got %v and error %v", want, got, err)
		}
	})
}
