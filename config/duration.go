package config

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

const day = 24 * time.Hour

// durationUnits are the units go-choria adds to Go's (internal/util,
// ParseDuration): M is a month, m a minute.
var durationUnits = map[byte]time.Duration{
	'w': 7 * day, 'W': 7 * day,
	'd': day, 'D': day,
	'M': 30 * day,
	'y': 365 * day, 'Y': 365 * day,
}

var errDuration = errors.New("is not a duration")

// ParseDuration reads a duration as go-choria writes them: one number with one
// of w, d, M or y, or Go's own format. go-choria drops parts of an hour and
// wraps around when a number is too large; here the first count and the second
// is an error. A negative duration is one too.
func ParseDuration(text string) (Duration, error) {
	text = strings.TrimSpace(text)
	if text == "" {
		return Duration{}, errDuration
	}
	unit, long := durationUnits[text[len(text)-1]]
	if !long {
		d, err := time.ParseDuration(text)
		if err != nil {
			return Duration{}, errDuration
		}
		if d < 0 {
			return Duration{}, errors.New("is negative")
		}
		return Duration{d}, nil
	}
	n, err := strconv.ParseFloat(text[:len(text)-1], 64)
	switch {
	case err != nil || math.IsNaN(n):
		return Duration{}, errDuration
	case n < 0:
		return Duration{}, errors.New("is negative")
	case n*float64(unit) >= math.MaxInt64:
		return Duration{}, errors.New("is longer than 292 years")
	}
	return Duration{time.Duration(n * float64(unit))}, nil
}

// String is the shortest text that ParseDuration reads back: 1y, 30d, 1m30s.
func (d Duration) String() string {
	switch {
	case d.Duration == 0:
		return "0s"
	case d.Duration%(365*day) == 0:
		return fmt.Sprintf("%dy", d.Duration/(365*day))
	case d.Duration%day == 0:
		return fmt.Sprintf("%dd", d.Duration/day)
	}
	text := d.Duration.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// MarshalText writes String.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }
