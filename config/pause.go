package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"choria-provision/internal/named"

	"github.com/google/renameio/v2"
)

// PauseFile is the name of the pause flag in the state directory.
const PauseFile = "paused.json"

// maxPause bounds the flag's file.
const maxPause = 64 << 10

// ErrPauseFlag is a pause flag that is there and cannot be understood.
var ErrPauseFlag = errors.New("the pause flag cannot be read")

// Pause says that no provisioning is to be done, by whom it was ordered being
// left to the reason.
type Pause struct {
	Reason string    `json:"reason,omitempty"`
	Since  time.Time `json:"since"`
	Until  time.Time `json:"until,omitzero"` // zero: until somebody resumes
}

// Over reports whether the pause has ended by itself at now.
func (p Pause) Over(now time.Time) bool { return !p.Until.IsZero() && !now.Before(p.Until) }

// SetPause writes the flag into the state directory dir, which it makes when it
// is not there. The flag is on disk when SetPause returns.
func SetPause(dir string, p Pause) error {
	text, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return fmt.Errorf("writing the pause flag: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("making the state directory: %w", err)
	}
	path := filepath.Join(dir, PauseFile)
	if err := renameio.WriteFile(path, append(text, '\n'), 0o600); err != nil {
		return fmt.Errorf("writing the pause flag: %w", named.Path(err, path))
	}
	return syncDirectory(dir)
}

// Resume takes the flag away, a broken one included, and reports whether there
// was one. It is gone from the disk when Resume returns.
func Resume(dir string) (paused bool, err error) {
	switch err := os.Remove(filepath.Join(dir, PauseFile)); {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return true, fmt.Errorf("removing the pause flag: %w", err)
	}
	return true, syncDirectory(dir)
}

// LoadPause returns the pause in force, or nil. A flag that cannot be
// understood counts as a pause, returned with an error that unwraps to
// ErrPauseFlag: somebody wanted to stop the work. Without a flag the cost is
// one failing open, so it can be asked before every attempt of every call.
func LoadPause(dir string) (*Pause, error) {
	path := filepath.Join(dir, PauseFile)
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return broken(path, err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxPause+1))
	if err != nil {
		return broken(path, err)
	}
	p, err := parsePause(text)
	if err != nil {
		return broken(path, err)
	}
	if p.Over(time.Now()) {
		return nil, nil
	}
	return p, nil
}

func parsePause(text []byte) (*Pause, error) {
	if len(text) > maxPause {
		return nil, fmt.Errorf("it is larger than %d KiB", maxPause>>10)
	}
	var p Pause
	decoder := json.NewDecoder(bytes.NewReader(text))
	switch err := decoder.Decode(&p); {
	case err != nil:
		return nil, fmt.Errorf("it is not the JSON it should be: %w", err)
	case decoder.More():
		return nil, errors.New("something follows the JSON in it")
	case p.Since.IsZero():
		return nil, errors.New("it does not say since when")
	}
	return &p, nil
}

func broken(path string, err error) (*Pause, error) {
	return &Pause{Reason: "the pause flag is broken"}, fmt.Errorf("%w: %s: %w; run provision resume to take it away, or provision pause to write it anew", ErrPauseFlag, path, err)
}

// syncDirectory makes a new name, or one taken away, outlast a power cut.
func syncDirectory(dir string) error {
	opened, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("flushing the state directory: %w", err)
	}
	defer opened.Close()
	if err := opened.Sync(); err != nil {
		return fmt.Errorf("flushing the state directory: %w", err)
	}
	return nil
}
