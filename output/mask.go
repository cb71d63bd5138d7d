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

// Mask hides the texts of known secrets in what others say: nodes, helpers, a
// gateway or a library may repeat what they were told. Copies share what they
// know, and may be used from many goroutines. The zero Mask hides nothing.
type Mask struct{ known *secrets }

type secrets struct {
	mu       sync.Mutex // held to change
	texts    map[string]bool
	replacer atomic.Pointer[strings.Replacer]
}

// NewMask hides secrets.
func NewMask(hide []string) Mask {
	m := Mask{&secrets{texts: map[string]bool{}}}
	m.Hide(hide...)
	return m
}

// Hide hides these too, from now on: a secret that was rotated, or one of
// a configuration that was read again. Texts too short to be one are left alone,
// else half of a log would be stars.
func (m Mask) Hide(texts ...string) {
	m.known.mu.Lock()
	defer m.known.mu.Unlock()
	before := len(m.known.texts)
	for _, text := range texts {
		if len(text) >= 4 {
			m.known.texts[text] = true
		}
	}
	if len(m.known.texts) == before {
		return
	}
	var pairs []string
	longest := func(a, b string) int { return len(b) - len(a) } // one may begin with another
	for _, text := range slices.SortedFunc(maps.Keys(m.known.texts), longest) {
		pairs = append(pairs, text, config.Redacted)
	}
	m.known.replacer.Store(strings.NewReplacer(pairs...))
}

// Replace returns the text with **** for each secret.
func (m Mask) Replace(text string) string {
	if m.known == nil {
		return text
	}
	if replacer := m.known.replacer.Load(); replacer != nil {
		return replacer.Replace(text)
	}
	return text
}

// Tell returns a tell function that hides secrets in each event's texts before
// it passes the event on.
func (m Mask) Tell(tell func(event any)) func(event any) {
	return func(event any) { tell(m.event(event)) }
}

func (m Mask) event(event any) any {
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

func (m Mask) result(r provision.Result) provision.Result {
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

func (m Mask) all(texts []string) []string {
	texts = slices.Clone(texts)
	for i, text := range texts {
		texts[i] = m.Replace(text)
	}
	return texts
}

// Error is err with secrets hidden in its text, and its causes as they are. One
// that tells none is returned as it is.
func (m Mask) Error(err error) error {
	if err == nil || m.Replace(err.Error()) == err.Error() {
		return err
	}
	if located, ok := err.(*provision.Error); ok { //nolint:errorlint // the outermost one alone: reports take it apart
		return &provision.Error{Node: located.Node, Step: located.Step, Err: m.Error(located.Err)}
	}
	return masked{err, m}
}

// masked is an error with secrets in its text.
type masked struct {
	error
	mask Mask
}

func (m masked) Error() string { return m.mask.Replace(m.error.Error()) }

// Unwrap keeps the causes; their texts are not for showing.
func (m masked) Unwrap() error { return m.error }
