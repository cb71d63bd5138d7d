package installstate

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// RestartAsked lists the machines whose installation was cut off between asking
// for the restart and hearing the answer: Installing, with that time set. It
// takes no lock; records that cannot be used are passed over, since Admit
// refuses their machines anyway. The error is that of reading the directory.
func (s *Store) RestartAsked() ([]string, error) {
	if err := s.catchUp(); err != nil {
		return nil, err
	}
	dirs, err := os.ReadDir(s.nodesDir())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing the records: %w", err)
	}
	var machines []string
	for _, dir := range dirs {
		record, err := readNoted(filepath.Join(s.nodesDir(), dir.Name()))
		if err == nil && record.Phase == Installing && !record.RestartAsked.IsZero() && escape(record.MachineName) == dir.Name() {
			machines = append(machines, record.MachineName)
		}
	}
	return machines, nil
}
