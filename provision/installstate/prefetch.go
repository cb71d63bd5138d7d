package installstate

import (
	"sync"
	"time"
)

// prefetchAge is how old a prefetched row may be to answer for a node. As the
// first guess of a compare-and-set a row may be of any age.
const prefetchAge = 5 * time.Second

// prefetched holds rows that were read in one pass.
type prefetched struct {
	mu   sync.Mutex
	at   time.Time
	rows map[string]row // nil: nothing was read
}

// Prefetch reads the records of many nodes in one pass if that is quicker than
// one by one. Load and Admit of nodes without a claim then answer from it for
// 5 s; decisions under a claim never do.
func (s *Store) Prefetch(identities []string) error {
	at := time.Now()
	rows, err := s.engine.prefetch(len(identities))
	if err != nil || rows == nil {
		return err
	}
	asked := make(map[string]row, len(identities))
	for _, identity := range identities {
		asked[identity] = rows[identity]
	}
	s.prefetched.mu.Lock()
	defer s.prefetched.mu.Unlock()
	s.prefetched.at, s.prefetched.rows = at, asked
	return nil
}

// fresh returns the prefetched row of a node if it is young enough.
func (p *prefetched) fresh(identity string) (row, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Since(p.at) > prefetchAge {
		return row{}, false
	}
	r, ok := p.rows[identity]
	return r, ok
}

// take removes the prefetched row of a node and returns it.
func (p *prefetched) take(identity string) (row, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r, ok := p.rows[identity]
	delete(p.rows, identity)
	return r, ok
}
