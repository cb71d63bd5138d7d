package output

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// CountersFile is the name of the carried counters in the state directory.
const CountersFile = "counters.json"

// countersVersion is the schema of counters.json.
const countersVersion = 1

// maxCounters bounds what is read as counters.json, in bytes.
const maxCounters = 1 << 20

// ErrCounters is a counters.json that holds something else.
var ErrCounters = errors.New("the carried counters cannot be read")

// counters is counters.json. Sites are apart: a renamed one starts at zero.
type counters struct {
	SchemaVersion int                     `json:"schema_version"`
	Sites         map[string]siteCounters `json:"sites"`
}

type siteCounters struct {
	Series      map[string]float64 `json:"series"`       // by name and labels
	LastSuccess float64            `json:"last_success"` // seconds since 1970, 0: never
}

// Carry starts the counters at what earlier runs saved at path. When the file
// cannot be read or understood they start at zero, and the error, a warning to
// the caller, says so. Nothing on disk changes.
func (m *Metrics) Carry(path string) error {
	saved, err := loadCounters(path)
	if err != nil {
		return fmt.Errorf("counting starts at zero: %w", err)
	}
	m.ledger.rebase(saved.Sites[m.site], nil)
	m.lastSuccess.Set(m.ledger.lastSuccess())
	return nil
}

// Save adds what was counted since Carry, or since the last Save, to the file
// at path, and from then on shows the sum: with what other processes counted in
// the meantime. Two processes at once lose nothing, and one that is killed
// leaves the old file or the new one. A file that holds something else is kept
// aside as evidence, and the error, a warning to the caller, says so. The
// context bounds the wait for other processes.
func (m *Metrics) Save(ctx context.Context, path string) error {
	lock, err := lockCounters(ctx, path)
	if err != nil {
		return fmt.Errorf("counters: %w", err)
	}
	defer lock.Close()

	saved, err := loadCounters(path)
	var warning error
	if errors.Is(err, ErrCounters) {
		if warning, err = setAside(path, err); err == nil {
			saved = counters{Sites: map[string]siteCounters{m.site: m.ledger.former()}}
		}
	}
	if err != nil {
		return fmt.Errorf("counters: %w", err)
	}
	added := m.ledger.pending()
	sum := merge(saved.Sites[m.site], added)
	if err := saved.with(m.site, sum).save(path); err != nil {
		return fmt.Errorf("counters: %w", err)
	}
	m.ledger.rebase(sum, added.Series)
	m.lastSuccess.Set(m.ledger.lastSuccess())
	return warning
}

func (c counters) with(site string, sum siteCounters) counters {
	sites := maps.Clone(c.Sites)
	if sites == nil {
		sites = map[string]siteCounters{}
	}
	sites[site] = sum
	return counters{countersVersion, sites}
}

func (c counters) save(path string) error {
	removeLeftovers(path)
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(c); err != nil {
		return err
	}
	return replace(path, text.Bytes())
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

func loadCounters(path string) (counters, error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return counters{}, nil
	}
	if err != nil {
		return counters{}, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxCounters+1))
	if err != nil {
		return counters{}, err
	}
	var c counters
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

// setAside keeps a file that is not what it should be, and returns what to tell
// about it. The caller holds the lock.
func setAside(path string, why error) (warning, err error) {
	aside := path + ".bad-" + time.Now().UTC().Format("20060102T150405.000Z")
	if err := os.Rename(path, aside); err != nil {
		return nil, err
	}
	return fmt.Errorf("%w: it is kept as %s", why, aside), nil
}

// lockCounters takes the lock that a save is made under. It is a file of its
// own, since the counters' file is replaced each time; the kernel frees it when
// a process dies. A process that was stopped while it holds the lock must not
// stop others for good: the context bounds the wait.
func lockCounters(ctx context.Context, path string) (*os.File, error) {
	file, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return file, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			file.Close()
			return nil, fmt.Errorf("locking %s: %w", file.Name(), err)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			file.Close()
			return nil, fmt.Errorf("another process holds %s: %w", file.Name(), ctx.Err())
		}
	}
}

// removeLeftovers deletes what a killed process left of its save. The caller
// holds the lock, so nobody is writing.
func removeLeftovers(path string) {
	entries, _ := os.ReadDir(filepath.Dir(path))
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), "."+filepath.Base(path)) {
			_ = os.Remove(filepath.Join(filepath.Dir(path), entry.Name()))
		}
	}
}
