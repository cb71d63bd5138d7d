//go:build !linux

package commands

import "syscall"

// endWithUs can do nothing where the kernel has no signal for a parent's death:
// the command outlives us then, without a broker.
func endWithUs() *syscall.SysProcAttr { return nil }
