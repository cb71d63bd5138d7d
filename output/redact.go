package output

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"choria-provision/config"
	"choria-provision/provision"
)

// minSecret is the length, in bytes, from which a text is redacted. Shorter ones
// would turn half of a log into stars.
const minSecret = 4

// Redactor replaces known secrets in texts from nodes, helpers, gateways and
// libraries, which may repeat what they received. Copies share their secrets and
// may be used from many goroutines. The zero Redactor replaces nothing.
type Redactor struct{ known *secrets }

type secrets struct {
	mu       sync.Mutex // held by Add
	texts    map[string]bool
	replacer atomic.Pointer[strings.Replacer] // nil while there is no secret
	fields   sync.Map                         // by reflect.Type, the []int of fieldsOf
}

// NewRedactor returns a redactor of these secrets.
func NewRedactor(secretTexts []string) Redactor {
	r := Redactor{&secrets{texts: map[string]bool{}}}
	r.Add(secretTexts...)
	return r
}

// Add redacts these texts from now on: a secret that was rotated, or those of a
// configuration that was read again.
func (r Redactor) Add(texts ...string) {
	r.known.mu.Lock()
	defer r.known.mu.Unlock()
	before := len(r.known.texts)
	for _, text := range texts {
		if len(text) >= minSecret {
			r.known.texts[text] = true
		}
	}
	if len(r.known.texts) == before {
		return
	}
	var pairs []string
	longest := func(a, b string) int { return len(b) - len(a) } // one secret may begin with another
	for _, text := range slices.SortedFunc(maps.Keys(r.known.texts), longest) {
		pairs = append(pairs, text, config.Redacted)
	}
	r.known.replacer.Store(strings.NewReplacer(pairs...))
}

func (r Redactor) active() bool { return r.known != nil && r.known.replacer.Load() != nil }

// Replace returns text with **** for each secret.
func (r Redactor) Replace(text string) string {
	if !r.active() {
		return text
	}
	return r.known.replacer.Load().Replace(text)
}

// Error returns err with secrets redacted in its text; errors.Is and errors.As
// still find its causes. An error without a secret is returned unchanged.
func (r Redactor) Error(err error) error {
	if err == nil || r.Replace(err.Error()) == err.Error() {
		return err
	}
	if located, ok := err.(*provision.Error); ok { //nolint:errorlint // the outermost one alone: reports take it apart
		return &provision.Error{Node: located.Node, Step: located.Step, Err: r.Error(located.Err)}
	}
	return redactedError{err, r}
}

// redactedError is an error with secrets in its text.
type redactedError struct {
	error
	redactor Redactor
}

func (e redactedError) Error() string { return e.redactor.Replace(e.error.Error()) }

// Unwrap returns the error as it was: for its causes, not for its text.
func (e redactedError) Unwrap() error { return e.error }
