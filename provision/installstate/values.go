package installstate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"
)

// The names of values.
const (
	pauseValue    = "pause"
	countersValue = "counters"
	reportValue   = "last-report"
	electionValue = "election"
)

// Pause says that no provisioning is to be done. Times are UTC.
type Pause struct {
	Reason string    `json:"reason,omitempty"`
	Since  time.Time `json:"since"`
	Until  time.Time `json:"until,omitzero"` // zero: until it is resumed
}

// over reports whether the pause has ended by itself at now.
func (p Pause) over(now time.Time) bool { return !p.Until.IsZero() && !now.Before(p.Until) }

// SetPause stores the pause, durably before it returns.
func (s *Store) SetPause(p Pause) error {
	text, err := json.Marshal(p)
	if err != nil {
		return fmt.Errorf("the pause flag: %w", err)
	}
	defer s.pause.forget()
	return s.setValue(pauseValue, text)
}

// Resume removes the pause flag, also one that cannot be understood, and reports
// whether there was one.
func (s *Store) Resume() (paused bool, err error) {
	stored, err := s.engine.value(pauseValue)
	if err != nil || stored.data == nil {
		return false, err
	}
	defer s.pause.forget()
	return true, s.setValue(pauseValue, nil)
}

// Pause returns the pause in force, or nil. A flag that cannot be understood
// counts as a pause and comes with ErrPauseFlag: the work was to be stopped. With
// another error (see Load) it is unknown whether there is a pause. What another
// process did in the last pauseAge may be missing.
func (s *Store) Pause() (*Pause, error) {
	text, err := s.pause.read(s.engine)
	if err != nil || text == nil {
		return nil, err
	}
	p, err := parsePause(text)
	switch {
	case err != nil:
		return &Pause{Reason: "the pause flag is broken"},
			fmt.Errorf("%w: %w; `provision resume` removes it, `provision pause` replaces it", ErrPauseFlag, err)
	case p.over(time.Now()):
		return nil, nil
	default:
		return &p, nil
	}
}

// How old a pause flag may be. The flag is asked for before every attempt of
// every call, and another host's pause takes longer than this to be typed.
const (
	pauseAge       = 10 * time.Millisecond
	sharedPauseAge = 100 * time.Millisecond
)

// pauseFlag keeps the pause flag for its age.
type pauseFlag struct {
	age time.Duration

	mu   sync.Mutex
	at   time.Time
	text []byte
}

func (p *pauseFlag) read(e engine) ([]byte, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.at.IsZero() && time.Since(p.at) < p.age {
		return p.text, nil
	}
	at := time.Now()
	stored, err := e.value(pauseValue)
	if err == nil {
		p.at, p.text = at, stored.data
	}
	return stored.data, err
}

func (p *pauseFlag) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.at = time.Time{}
}

func parsePause(text []byte) (p Pause, err error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	switch err := decoder.Decode(&p); {
	case err != nil:
		return p, fmt.Errorf("it is not the expected JSON: %w", err)
	case decoder.More():
		return p, errors.New("text follows its JSON")
	case p.Since.IsZero():
		return p, errors.New("it has no time `since`")
	}
	return p, nil
}

// Counters returns what UpdateCounters stored last, nil before the first time.
func (s *Store) Counters() ([]byte, error) {
	stored, err := s.engine.value(countersValue)
	return stored.data, err
}

// UpdateCounters replaces the counters by what edit makes of the stored ones, in
// one transaction: edit may run more than once.
func (s *Store) UpdateCounters(edit func(stored []byte) ([]byte, error)) error {
	return s.updateValue(countersValue, edit)
}

// LastReport returns what SaveLastReport stored last, nil before the first time.
func (s *Store) LastReport() ([]byte, error) {
	stored, err := s.engine.value(reportValue)
	return stored.data, err
}

// SaveLastReport stores the report of a run. Its form is the caller's.
func (s *Store) SaveLastReport(report []byte) error {
	return s.setValue(reportValue, report)
}

// HostReport is the last report of one host.
type HostReport struct {
	Host   string // empty when the records are not shared
	Report []byte // see SaveLastReport
}

// LastReports returns the last report of each host that shares the records,
// ordered by the host's name. Hosts without a report are left out.
func (s *Store) LastReports() ([]HostReport, error) {
	stored, err := s.engine.values(reportValue)
	reports := make([]HostReport, len(stored))
	for i, v := range stored {
		reports[i] = HostReport{v.host, v.data}
	}
	return reports, err
}

// EditLastReports replaces the last report of each host by what edit makes of
// it; nil leaves it as it is. One that a run replaces meanwhile is left out.
func (s *Store) EditLastReports(edit func(report []byte) ([]byte, error)) error {
	stored, err := s.engine.values(reportValue)
	if err != nil {
		return err
	}
	for _, v := range stored {
		edited, err := edit(v.data)
		if err != nil {
			return err
		}
		if edited == nil {
			continue
		}
		v.data = edited
		if err := s.engine.setValue(reportValue, v); err != nil && !errors.Is(err, errConflict) {
			return err
		}
	}
	return nil
}

// ElectionRevision returns the revision of the election's key that this host
// wrote last; 0 when there is none or it cannot be read, which costs a wait.
func (s *Store) ElectionRevision() uint64 {
	stored, err := s.engine.value(electionValue)
	if err != nil {
		return 0
	}
	revision, _ := strconv.ParseUint(string(stored.data), 10, 64)
	return revision
}

// SaveElectionRevision stores the revision for ElectionRevision.
func (s *Store) SaveElectionRevision(revision uint64) error {
	return s.setValue(electionValue, strconv.AppendUint(nil, revision, 10))
}

// setValue replaces a value; nil is none.
func (s *Store) setValue(name string, data []byte) error {
	return s.updateValue(name, func([]byte) ([]byte, error) { return data, nil })
}

// updateValue replaces a value by what edit makes of the stored one; nil is none.
// A value that another process changed in between is edited again.
func (s *Store) updateValue(name string, edit func(stored []byte) ([]byte, error)) error {
	for range maxConflicts {
		stored, err := s.engine.value(name)
		if err != nil {
			return err
		}
		if stored.data, err = edit(stored.data); err != nil {
			return err
		}
		if stored.data == nil && stored.revision == 0 { // another process removed it
			return nil
		}
		if err := s.engine.setValue(name, stored); !errors.Is(err, errConflict) {
			return err
		}
	}
	return fmt.Errorf("%s: %w: %w", name, ErrUnavailable, errConflict)
}
