package output

import (
	"fmt"
	"time"
)

// FormatDuration returns d with the two units that matter, as Go writes them:
// 0.3s, 12s, 3m5s, 1h2m, 2d3h. A negative duration, as from a clock that was set
// back, is 0.0s.
func FormatDuration(d time.Duration) string {
	const day = 24 * time.Hour
	switch d = max(d, 0).Round(100 * time.Millisecond); { // before the unit is chosen: 9.96s is 10s
	case d >= day:
		return fmt.Sprintf("%dd%dh", d/day, d%day/time.Hour)
	case d >= time.Hour:
		return fmt.Sprintf("%dh%dm", d/time.Hour, d%time.Hour/time.Minute)
	case d >= time.Minute:
		return fmt.Sprintf("%dm%ds", d/time.Minute, d%time.Minute/time.Second)
	case d >= 10*time.Second:
		return fmt.Sprintf("%ds", d/time.Second)
	default:
		return fmt.Sprintf("%.1fs", d.Seconds())
	}
}

// Seconds returns d in seconds, to the millisecond, as JSON documents have it. It
// is the number nearest to the decimal one: 1.235, where Duration.Seconds returns
// 1.2349999999999999.
func Seconds(d time.Duration) float64 {
	return float64(d.Round(time.Millisecond).Milliseconds()) / 1000
}

// FromSeconds returns the duration that a JSON document has in seconds.
func FromSeconds(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }

// plural returns n and the noun, with an s unless n is 1.
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
