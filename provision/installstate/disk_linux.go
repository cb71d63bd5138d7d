package installstate

import (
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

func syncData(file *os.File) error {
	return retried(func() error { return unix.Fdatasync(int(file.Fd())) })
}

func syncAll(file *os.File) error {
	return retried(func() error { return unix.Syncfs(int(file.Fd())) })
}

func bootID() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(id))
}
