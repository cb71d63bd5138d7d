package discovery

import (
	"errors"
	"fmt"
	"regexp"
	"time"
)

// The reasons to refuse a sighting.
var (
	ErrTwins           = errors.New("more than one machine claims this identity")
	ErrInvalidIdentity = errors.New("this is not a name a node can have")
)

// identity is a name that is safe as part of a NATS subject and as an argument:
// the characters of host names and the underscore.
var identity = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_-]*(\.[A-Za-z0-9_-]+)*$`)

// maxIdentity is the length of the longest DNS name, in bytes.
const maxIdentity = 253

// ValidIdentity says whether a node can have this name.
func ValidIdentity(name string) bool {
	return len(name) <= maxIdentity && identity.MatchString(name)
}

// Duplicate is an identity that more than one machine answered to: it is unknown
// which one would be configured. It unwraps to ErrTwins.
type Duplicate struct {
	Count int // answers in one broadcast
}

func (d *Duplicate) Error() string { return fmt.Sprintf("%v: %d answers", ErrTwins, d.Count) }

// Unwrap returns ErrTwins.
func (d *Duplicate) Unwrap() error { return ErrTwins }

// Admit takes names in the order they came and returns one sighting for each
// valid one. That of a name which came more than once has a *Duplicate as its
// Err and is not admitted.
func Admit(names []string, source Source, tell func(any)) []Sighting {
	seen := sift(names, source, tell)
	tellAdmitted(seen, tell)
	return seen
}

func tellAdmitted(seen []Sighting, tell func(any)) {
	for _, s := range seen {
		if s.Err == nil {
			tell(Admitted{s})
		}
	}
}

func sift(names []string, source Source, tell func(any)) []Sighting {
	count := make(map[string]int, len(names))
	for _, name := range names {
		count[name]++
	}
	now := time.Now()
	admitted := make([]Sighting, 0, len(count))
	for _, name := range names {
		times := count[name]
		delete(count, name)
		switch {
		case times == 0: // dealt with when it came first
		case !ValidIdentity(name):
			tell(Refused{Identity: name, Count: times, Err: ErrInvalidIdentity})
		case times > 1:
			admitted = append(admitted, Sighting{Identity: name, Seen: now, Source: source, Err: &Duplicate{times}})
		default:
			admitted = append(admitted, Sighting{Identity: name, Seen: now, Source: source})
		}
	}
	return admitted
}
