package helper

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// ownGroup puts a child in a process group of its own, so that it can be ended
// with everything it started, and has the kernel end it when we are killed.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// openPipe is os.Pipe at a quarter of its cost: that one sets both ends up to be
// waited for, only to have a child's end set back.
func openPipe(weWrite bool) (read, write *os.File, err error) {
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, os.NewSyscallError("pipe2", err)
	}
	ours := ends[0]
	if weWrite {
		ours = ends[1]
	}
	if err := unix.SetNonblock(ours, true); err != nil {
		_, _ = unix.Close(ends[0]), unix.Close(ends[1])
		return nil, nil, os.NewSyscallError("fcntl", err)
	}
	return os.NewFile(uintptr(ends[0]), "|0"), os.NewFile(uintptr(ends[1]), "|1"), nil
}

// hasBytes reports whether a pipe holds bytes that nobody has read yet; either
// end tells.
func hasBytes(pipe *os.File) bool {
	raw, err := pipe.SyscallConn()
	if err != nil {
		return false
	}
	bytes := 0
	_ = raw.Control(func(fd uintptr) { bytes, _ = unix.IoctlGetInt(int(fd), unix.TIOCINQ) })
	return bytes > 0
}
