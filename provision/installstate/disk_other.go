//go:build !linux

package installstate

import (
	"errors"
	"os"
)

func syncData(file *os.File) error { return file.Sync() }

func syncAll(*os.File) error { return errors.ErrUnsupported }

// bootID is not known, so that no journal is written (see startJournal).
func bootID() string { return "" }
