//go:build unix && !linux

package provision

import "syscall"

// ownGroup puts a child in a process group of its own, so that it can be ended
// with everything it started.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
