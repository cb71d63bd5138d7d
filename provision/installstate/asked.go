package installstate

import (
	"os"
	"path/filepath"
)

// RestartAsked lists the machines whose installation was cut off between asking
// for the restart and hearing the answer: Installing, with that time set. It
// takes no lock; records that cannot be used are passed over, since Admit
// refuses their machines anyway. The errors are those of List.
func (s *Store) RestartAsked() ([]string, error) {
	dirs, err := s.machineDirs()
	if err != nil {
		return nil, err
	}
	var machines []string
	for _, dir := range dirs {
		path := filepath.Join(s.nodesDir(), dir.Name())
		if info, err := os.Stat(filepath.Join(path, lockFile)); err != nil || info.Size() == 0 {
			continue // nothing is noted there: so it is for all of a fleet in service
		}
		record, err := readNoted(path)
		if err == nil && record.Phase == Installing && !record.RestartAsked.IsZero() && escape(record.MachineName) == dir.Name() {
			machines = append(machines, record.MachineName)
		}
	}
	return machines, nil
}
