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

// Emit returns a function that redacts secrets in each event's texts before
// it passes the event on.
func (m Redactor) Emit(emit func(event any)) func(event any) {
	return func(event any) { emit(m.event(event)) }
}

func (m Redactor) event(event any) any {
	switch e := event.(type) {
	case provision.StepDone:
		e.Err = m.Error(e.Err)
		return e
	case provision.Attempt:
		e.Err = m.Error(e.Err)
		return e
	case provision.CallFailed:
		e.Err = m.Error(e.Err)
		return e
	case provision.HelperDone:
		e.Err = m.Error(e.Err)
		return e
	case provision.AnswerRefused:
		e.Err = m.Error(e.Err)
		return e
	case provision.Notice:
		e.Text = m.Replace(e.Text)
		return e
	case provision.NodeDone:
		e.Result = m.result(e.Result)
		return e
	default:
		return event
	}
}

func (m Redactor) result(r provision.Result) provision.Result {
	r.Err = m.Error(r.Err)
	r.Message, r.Version, r.Upgrade = m.Replace(r.Message), m.Replace(r.Version), m.Replace(r.Upgrade)
	r.Notices = m.all(r.Notices)
	if r.Plan == nil {
		return r
	}
	plan := *r.Plan
	plan.Unchecked = m.all(plan.Unchecked)
	plan.Configuration = nil
	for key, value := range r.Plan.Configuration {
		if plan.Configuration == nil {
			plan.Configuration = map[string]string{}
		}
		plan.Configuration[key] = m.Replace(value)
	}
	r.Plan = &plan
	return r
}

func (m Redactor) all(texts []string) []string {
	texts = slices.Clone(texts)
	for i, text := range texts {
		texts[i] = m.Replace(text)
	}
	return texts
}
