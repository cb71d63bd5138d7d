package helper

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// ownGroup puts a child in a process group of its own, so that a signal reaches
// all that it started, and has the kernel kill it when we are killed.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// awaitExit returns true after a child has exited, and leaves it to be reaped, so
// that its process group still has its number.
func awaitExit(pid int) bool {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return err == nil
		}
	}
}

// openPipe is os.Pipe at a quarter of its cost: os.Pipe prepares both ends for
// polling, and the child's end has to be reset then.
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

// hasBytes reports whether a pipe holds unread bytes; either end may be given.
func hasBytes(pipe *os.File) bool {
	raw, err := pipe.SyscallConn()
	if err != nil {
		return false
	}
	bytes := 0
	_ = raw.Control(func(fd uintptr) { bytes, _ = unix.IoctlGetInt(int(fd), unix.TIOCINQ) })
	return bytes > 0
}
