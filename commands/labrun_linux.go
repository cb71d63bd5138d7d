package commands

import "syscall"

// endWithUs lets the kernel end the command should we be killed.
func endWithUs() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
}
