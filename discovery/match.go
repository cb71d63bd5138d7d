package discovery

import (
	"fmt"
	"path"
	"regexp"
	"strings"
)

// Match says whether a name is wanted.
type Match func(name string) bool

// ParseMatch reads patterns: a glob, or a regular expression between slashes.
// A name is wanted when one of them fits; without patterns every name is.
func ParseMatch(patterns []string) (Match, error) {
	var matches []Match
	for _, pattern := range patterns {
		match, err := parseOne(pattern)
		if err != nil {
			return nil, err
		}
		matches = append(matches, match)
	}
	return func(name string) bool {
		for _, match := range matches {
			if match(name) {
				return true
			}
		}
		return len(matches) == 0
	}, nil
}

func parseOne(pattern string) (Match, error) {
	if inner, ok := strings.CutPrefix(pattern, "/"); ok && strings.HasSuffix(inner, "/") {
		expression, err := regexp.Compile(strings.TrimSuffix(inner, "/"))
		if err != nil {
			return nil, fmt.Errorf("pattern %s: %w", pattern, err)
		}
		return expression.MatchString, nil
	}
	if _, err := path.Match(pattern, ""); err != nil || pattern == "" {
		return nil, fmt.Errorf("pattern %q is not a glob such as web*.example.net; a regular expression stands between slashes, /^web[0-9]+/", pattern)
	}
	return func(name string) bool {
		fits, _ := path.Match(pattern, name)
		return fits
	}, nil
}
