package output

import (
	"iter"
	"maps"
	"reflect"
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

// Emit returns a function that redacts each event and passes it to emit. It covers
// events and fields of any type, so that a new one needs no line here.
func (r Redactor) Emit(emit func(event any)) func(event any) {
	return func(event any) { emit(Redact(r, event)) }
}

// Redact returns v with secrets redacted in its texts and errors, at any depth. V
// itself does not change: parts that hold a secret are copied.
func Redact[T any](r Redactor, v T) T {
	if !r.active() {
		return v
	}
	value := reflect.ValueOf(&v).Elem()
	r.redact(value)
	return v
}

// identifiers are fields that name a node, a step or an action. Observers compare
// them, so they stay as they are.
var identifiers = []string{"Node", "Identity", "Identities", "Step", "Action"}

// isText reports whether v is a string. A string of a type of its own, such as
// provision.Outcome, is a constant of this program.
func isText(v reflect.Value) bool { return v.Type() == reflect.TypeFor[string]() }

func isBytes(v reflect.Value) bool {
	return v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Uint8
}

// errorIn returns the error that an interface holds, nil for any other value.
func errorIn(v reflect.Value) error {
	if v.Kind() != reflect.Interface || v.IsNil() {
		return nil
	}
	err, _ := v.Interface().(error)
	return err
}

// holdsSecret reports whether a text in v has a secret. It allocates next to
// nothing: few of the events of a run have one.
func (r Redactor) holdsSecret(v reflect.Value) bool {
	if isText(v) {
		return r.Replace(v.String()) != v.String()
	}
	if isBytes(v) {
		return r.Replace(string(v.Bytes())) != string(v.Bytes())
	}
	if err := errorIn(v); err != nil {
		return r.Replace(err.Error()) != err.Error()
	}
	for part := range r.parts(v) {
		if r.holdsSecret(part) {
			return true
		}
	}
	return false
}

// parts yields the values within v that may hold texts.
func (r Redactor) parts(v reflect.Value) iter.Seq[reflect.Value] {
	return func(yield func(reflect.Value) bool) {
		switch v.Kind() {
		case reflect.Pointer, reflect.Interface:
			if !v.IsNil() {
				yield(v.Elem())
			}
		case reflect.Slice, reflect.Array:
			for i := 0; i < v.Len() && yield(v.Index(i)); i++ {
			}
		case reflect.Map:
			entries(v, yield)
		case reflect.Struct:
			for _, i := range r.fieldsOf(v.Type()) {
				if !yield(v.Field(i)) {
					return
				}
			}
		}
	}
}

// entries yields the keys and values of a map.
func entries(v reflect.Value, yield func(reflect.Value) bool) {
	for key, value := range v.Seq2() {
		if !yield(key) || !yield(value) {
			return
		}
	}
}

// fieldsOf returns the indices of the fields of a struct type to look into. An
// unexported field cannot be set, and events have none.
func (r Redactor) fieldsOf(t reflect.Type) []int {
	if known, ok := r.known.fields.Load(t); ok {
		return known.([]int)
	}
	var indices []int
	for i := range t.NumField() {
		if field := t.Field(i); field.IsExported() && !slices.Contains(identifiers, field.Name) && mayHoldText(field.Type) {
			indices = append(indices, i)
		}
	}
	r.known.fields.Store(t, indices)
	return indices
}

// mayHoldText rules out numbers and the like, most fields of an event.
func mayHoldText(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.String, reflect.Struct, reflect.Pointer, reflect.Interface, reflect.Slice, reflect.Array, reflect.Map:
		return true
	default:
		return false
	}
}

// redact replaces what holds a secret in v, which must be settable, by a copy
// without it.
func (r Redactor) redact(v reflect.Value) {
	if !r.holdsSecret(v) {
		return
	}
	switch err := errorIn(v); {
	case isText(v):
		v.SetString(r.Replace(v.String()))
	case isBytes(v):
		v.SetBytes([]byte(r.Replace(string(v.Bytes()))))
	case err != nil:
		r.redactError(v, err)
	default:
		r.redactParts(v)
	}
}

// redactError sets v, an interface, to err without its secrets. An interface with
// more methods than an error has cannot hold that and becomes nil.
func (r Redactor) redactError(v reflect.Value, err error) {
	redacted := reflect.ValueOf(r.Error(err))
	if !redacted.Type().AssignableTo(v.Type()) {
		redacted = reflect.Zero(v.Type())
	}
	v.Set(redacted)
}

func (r Redactor) redactParts(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(r.redacted(v.Elem()).Addr())
	case reflect.Interface:
		v.Set(r.redacted(v.Elem()))
	case reflect.Map:
		fresh := reflect.MakeMapWithSize(v.Type(), v.Len())
		for key, value := range v.Seq2() {
			fresh.SetMapIndex(r.redacted(key), r.redacted(value))
		}
		v.Set(fresh)
	case reflect.Slice:
		fresh := reflect.MakeSlice(v.Type(), 0, v.Len())
		for i := range v.Len() {
			fresh = reflect.Append(fresh, r.redacted(v.Index(i)))
		}
		v.Set(fresh)
	default: // structs and arrays: v is a copy already
		for part := range r.parts(v) {
			r.redact(part)
		}
	}
}

// redacted returns a settable copy of v without secrets.
func (r Redactor) redacted(v reflect.Value) reflect.Value {
	fresh := reflect.New(v.Type()).Elem()
	fresh.Set(v)
	r.redact(fresh)
	return fresh
}
