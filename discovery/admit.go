package discovery

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// The reasons to refuse a sighting.
var (
	ErrTwins           = errors.New("more than one machine claims this identity")
	ErrOtherCase       = errors.New("another machine claims this identity in other letter case")
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
// which one would be configured. It unwraps to ErrTwins, or to ErrOtherCase when
// the answers spell it in different letter case: Choria takes them for two nodes,
// DNS and certificates for one.
type Duplicate struct {
	Count     int      // answers in one broadcast, of all spellings
	Spellings []string // sorted; one unless letter case differs
}

// Error implements error.
func (d *Duplicate) Error() string {
	if len(d.Spellings) > 1 {
		return fmt.Sprintf("%v: %s", ErrOtherCase, strings.Join(d.Spellings, ", "))
	}
	return fmt.Sprintf("%v: %d answers", ErrTwins, d.Count)
}

// Unwrap returns ErrTwins or ErrOtherCase.
func (d *Duplicate) Unwrap() error {
	if len(d.Spellings) > 1 {
		return ErrOtherCase
	}
	return ErrTwins
}

// fold returns what a valid identity has in common with its spellings in other
// letter case.
func fold(identity string) string { return strings.ToLower(identity) }

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
	spellings := make(map[string][]string, len(names))
	for _, name := range names {
		if count[name]++; count[name] == 1 {
			spellings[fold(name)] = append(spellings[fold(name)], name)
		}
	}
	now := time.Now()
	admitted := make([]Sighting, 0, len(count))
	done := make(map[string]bool, len(count))
	for _, name := range names {
		if done[name] {
			continue
		}
		done[name] = true
		if !ValidIdentity(name) {
			tell(Refused{Identity: name, Count: count[name], Err: ErrInvalidIdentity})
			continue
		}
		seen := Sighting{Identity: name, Seen: now, Source: source}
		if answers := answersOf(spellings[fold(name)], count); answers > 1 {
			seen.Err = &Duplicate{answers, slices.Sorted(slices.Values(spellings[fold(name)]))}
		}
		admitted = append(admitted, seen)
	}
	return admitted
}

func answersOf(spellings []string, count map[string]int) (answers int) {
	for _, name := range spellings {
		answers += count[name]
	}
	return answers
}
