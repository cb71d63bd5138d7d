package network

import (
	"fmt"
	"sync"
	"time"
)

const (
	// clockNoise is what is no sign of a wrong clock: v1 tells whole seconds.
	clockNoise = 2 * time.Second

	// maxClocks bounds what is remembered: broadcasts may be answered in any
	// number of names.
	maxClocks = 10_000
)

// fastClocks knows the nodes whose clock is ahead of ours, from the times that
// their replies state. The zero value is ready for use.
type fastClocks struct {
	mu    sync.Mutex
	ahead map[string]time.Duration // by identity
}

// learn takes in when a reply that came just now says that it was made.
func (f *fastClocks) learn(identity string, made time.Time) {
	ahead := time.Until(made)
	f.mu.Lock()
	defer f.mu.Unlock()
	_, known := f.ahead[identity]
	switch {
	case ahead < clockNoise:
		delete(f.ahead, identity)
	case known || len(f.ahead) < maxClocks:
		if f.ahead == nil {
			f.ahead = map[string]time.Duration{}
		}
		f.ahead[identity] = ahead
	}
}

// explain returns why a request was not answered if the node's clock is the
// likely cause, else the error itself.
func (f *fastClocks) explain(x *exchange, err error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	ahead := f.ahead[x.identity]
	if x.valid == 0 || ahead < x.valid {
		return err
	}
	return fmt.Errorf("%w; the node's clock is %s ahead of ours, and by leader election a request is valid for %s only",
		err, ahead.Round(time.Second), x.valid.Round(time.Second))
}
