// Package output knows everything a run leaves behind: what a person sees in
// the terminal, the JSON report, log lines, metrics and where they go. It does
// not know how the work is done: it observes the events that discovery and
// provision tell, and texts that come from nodes or helpers pass through Escape
// before anybody sees them.
package output

import "sync"

// Observer takes what a run tells. Observers are called one at a time and must
// not block; those that show something in the meantime keep a model and draw
// it on their own.
type Observer interface{ Observe(event any) }

// Tell returns the function that discovery and provision are given: it hands
// each event to every observer in turn, one event at a time.
func Tell(observers ...Observer) func(event any) {
	var mu sync.Mutex
	return func(event any) {
		mu.Lock()
		defer mu.Unlock()
		for _, o := range observers {
			o.Observe(event)
		}
	}
}
