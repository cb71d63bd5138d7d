package output

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
)

// countersVersion is the schema of the saved counters.
const countersVersion = 1

// ErrCounters is saved counters that cannot be understood.
var ErrCounters = errors.New("the saved counters cannot be read")

// CounterStore keeps the counters from run to run.
type CounterStore interface {
	// Counters returns what was stored last, nil before the first time.
	Counters() ([]byte, error)
	// UpdateCounters stores what edit makes of what is stored, in one
	// transaction; edit may run more than once.
	UpdateCounters(edit func(stored []byte) ([]byte, error)) error
}

// counters is the saved form. Sites are apart: a renamed one starts at zero.
type counters struct {
	SchemaVersion int                     `json:"schema_version"`
	Sites         map[string]siteCounters `json:"sites"`
}

type siteCounters struct {
	Series      map[string]float64 `json:"series"`       // by name and labels
	LastSuccess float64            `json:"last_success"` // seconds since 1970, 0: never
}

// Carry starts the counters at what earlier runs saved. When that cannot be read
// or understood they start at zero, and the error, a warning to the caller, says
// so. Nothing is stored.
func (m *Metrics) Carry(store CounterStore) error {
	text, err := store.Counters()
	if err != nil {
		return fmt.Errorf("counting starts at zero: %w", err)
	}
	saved, err := parseCounters(text)
	if err != nil {
		return fmt.Errorf("counting starts at zero: %w", err)
	}
	m.ledger.rebase(saved.Sites[m.site], nil)
	m.lastSuccess.Set(m.ledger.lastSuccess())
	return nil
}

// Save adds what was counted since Carry, or since the last Save, to the stored
// counters and from then on shows the sum, which includes what other processes
// counted in the meantime. Counters that cannot be understood, as after a return
// to an older version, are kept and ErrCounters is a warning to the caller.
func (m *Metrics) Save(store CounterStore) error {
	m.saving.Lock()
	defer m.saving.Unlock()
	var sum, added siteCounters
	err := store.UpdateCounters(func(stored []byte) ([]byte, error) {
		saved, err := parseCounters(stored)
		if err != nil {
			return nil, err
		}
		added = m.ledger.pending()
		sum = merge(saved.Sites[m.site], added)
		return json.Marshal(saved.with(m.site, sum))
	})
	if err != nil {
		return fmt.Errorf("counters: %w", err)
	}
	m.ledger.rebase(sum, added.Series)
	m.lastSuccess.Set(m.ledger.lastSuccess())
	return nil
}

func (c counters) with(site string, sum siteCounters) counters {
	sites := maps.Clone(c.Sites)
	if sites == nil {
		sites = map[string]siteCounters{}
	}
	sites[site] = sum
	return counters{countersVersion, sites}
}

// merge adds what was counted. A success of ours is the last one, whatever a
// clock that was wrong at the time left in the file.
func merge(saved, added siteCounters) siteCounters {
	sum := siteCounters{Series: maps.Clone(saved.Series), LastSuccess: saved.LastSuccess}
	if sum.Series == nil {
		sum.Series = map[string]float64{}
	}
	for name, n := range added.Series {
		sum.Series[name] += n
	}
	if added.LastSuccess > 0 {
		sum.LastSuccess = added.LastSuccess
	}
	return sum
}

func parseCounters(text []byte) (c counters, err error) {
	if text == nil {
		return c, nil
	}
	if err := json.Unmarshal(text, &c); err != nil {
		return counters{}, fmt.Errorf("%w: %w", ErrCounters, err)
	}
	return c, c.check()
}

func (c counters) check() error {
	if c.SchemaVersion != countersVersion {
		return fmt.Errorf("%w: schema version %d is not %d", ErrCounters, c.SchemaVersion, countersVersion)
	}
	for _, site := range c.Sites {
		for name, n := range site.Series {
			if n < 0 || math.IsInf(n, 0) || math.IsNaN(n) {
				return fmt.Errorf("%w: %s is %v", ErrCounters, Escape(name), n)
			}
		}
		if site.LastSuccess < 0 {
			return fmt.Errorf("%w: last_success is %v", ErrCounters, site.LastSuccess)
		}
	}
	return nil
}
