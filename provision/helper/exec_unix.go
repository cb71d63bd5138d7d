//go:build unix && !linux

package helper

import (
	"os"
	"syscall"
)

// ownGroup puts a child in a process group of its own, so that it can be ended
// with everything it started.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}

func openPipe(bool) (read, write *os.File, err error) { return os.Pipe() }

// hasBytes cannot tell here.
func hasBytes(*os.File) bool { return false }
