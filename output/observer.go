// Package output shows a run: on the terminal, as a JSON report and as log lines.
// It observes the events of discovery and provision and does not know how the
// work is done. Texts from nodes and helpers pass through Escape before they are
// shown, and all texts through a Redactor.
package output

import "sync"

// Observer receives the events of a run. Observers are called one at a time and
// must not block: an observer that draws keeps a model and draws on its own
// tick.
type Observer interface{ Observe(event any) }

// Emit returns the function that discovery and provision call for each event. It
// passes the event to every observer in turn and may be called from many
// goroutines.
func Emit(observers ...Observer) func(event any) {
	var mu sync.Mutex
	return func(event any) {
		mu.Lock()
		defer mu.Unlock()
		for _, o := range observers {
			o.Observe(event)
		}
	}
}
