package provision

import "syscall"

// ownGroup puts a child in a process group of its own, so that it can be ended
// with everything it started, and has the kernel end it when we are killed.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
