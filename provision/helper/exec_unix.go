//go:build unix && !linux

package helper

import (
	"os"
	"syscall"
)

// ownGroup puts a child in a process group of its own, so that a signal reaches
// all that it started.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}

// awaitExit returns false: here a child cannot be awaited without reaping it.
// Processes that a helper leaves behind and that hold its pipes delay its answer
// by the grace period.
func awaitExit(int) bool { return false }

func openPipe(bool) (read, write *os.File, err error) { return os.Pipe() }

// hasBytes cannot tell here.
func hasBytes(*os.File) bool { return false }
