package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Severity says whether a problem keeps a configuration from being used.
type Severity string

// The severities; their texts are part of the JSON of config check.
const (
	SeverityError   Severity = "error"
	SeverityWarning Severity = "warning"
)

// Problem is one thing that is wrong with a configuration, where it is, and
// what to write instead. Its texts never hold a secret's value.
type Problem struct {
	Severity Severity `json:"severity"`
	File     string   `json:"file"`          // or the flag or variable that is wrong
	Line     int      `json:"line"`          // from 1; 0 when the file as a whole is meant
	Column   int      `json:"column"`        // from 1, in characters
	Key      string   `json:"key,omitempty"` // dotted: features.pki, cert_deny_list[1]
	Text     string   `json:"text"`
	Remedy   string   `json:"remedy"`
}

// String is one line: FILE:LINE:COLUMN: severity: key: text; remedy.
func (p Problem) String() string {
	var b strings.Builder
	if p.File != "" {
		b.WriteString(p.File + ":")
	}
	if p.Line > 0 {
		fmt.Fprintf(&b, "%d:%d:", p.Line, p.Column)
	}
	if b.Len() > 0 {
		b.WriteByte(' ')
	}
	fmt.Fprintf(&b, "%s: ", p.Severity)
	if p.Key != "" {
		b.WriteString(p.Key + ": ")
	}
	fmt.Fprintf(&b, "%s; %s", p.Text, p.Remedy)
	return b.String()
}

// Invalid is a configuration that cannot be used: all its problems, warnings
// included, in the order of the file.
type Invalid struct{ Problems []Problem }

// Error shows every problem, one a line.
func (e *Invalid) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// finding is what a check has to say: a problem whose place is not known yet.
type finding struct {
	Problem
	near string // the key to point at when the problem's own is not in the file
}

// mistake is a finding that keeps the configuration from being used.
func mistake(key, text, remedy string) finding {
	return finding{Problem: Problem{Severity: SeverityError, Key: key, Text: text, Remedy: remedy}}
}

// warning is a finding that does not.
func warning(key, text, remedy string) finding {
	return finding{Problem: Problem{Severity: SeverityWarning, Key: key, Text: text, Remedy: remedy}}
}

// because points at the key that makes a missing one necessary.
func (f finding) because(key string) finding {
	f.near = key
	return f
}

func hasErrors(problems []Problem) bool {
	return slices.ContainsFunc(problems, func(p Problem) bool { return p.Severity == SeverityError })
}

// toldAt reports whether something is known of key, or of what is in it,
// already: what a check says about its default would only confuse.
func toldAt(problems []Problem, key string) bool {
	return slices.ContainsFunc(problems, func(p Problem) bool {
		return p.Key == key || strings.HasPrefix(p.Key, key+".") || strings.HasPrefix(p.Key, key+"[")
	})
}

func sortProblems(problems []Problem) {
	slices.SortStableFunc(problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
}
