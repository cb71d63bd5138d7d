package config

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
)

// go-choria's words for log destinations (choria, CommonLogOpener).
const (
	toStderr  = "stderr"
	toStdout  = "stdout"
	toDiscard = "discard"
)

// logDestination returns one of the three words when logfile means what they
// mean, else logfile itself. stdout is the file that stdout goes to, or nil:
// a log written to that file too would end up in the middle of the result.
func logDestination(logfile string, stdout fs.FileInfo) string {
	switch logfile {
	case "", toStderr:
		return toStderr
	case toStdout, toDiscard:
		return logfile
	case os.DevNull:
		return toDiscard
	}
	switch descriptor(logfile) {
	case 1:
		return toStdout
	case 2: // cannot be opened when stderr is a socket, as under systemd
		return toStderr
	}
	info, err := os.Stat(logfile)
	if err != nil || stdout == nil || isNull(info) || !os.SameFile(info, stdout) {
		return logfile
	}
	return toStdout
}

func isNull(info fs.FileInfo) bool {
	null, err := os.Stat(os.DevNull)
	return err == nil && os.SameFile(info, null)
}

// maxLinks is how many symbolic links the kernel follows for one path.
const maxLinks = 40

// descriptor returns the number of this process's open file that path names,
// through links or not; -1 when it names none.
func descriptor(path string) int {
	own := fmt.Sprintf("/proc/%d", os.Getpid())
	for range maxLinks {
		path = absolute(path)
		dir, name := filepath.Split(path)
		if resolved, err := filepath.EvalSymlinks(dir); err == nil {
			dir = resolved
		}
		number, err := strconv.Atoi(name)
		thread, _ := filepath.Match(own+"/task/*/fd", dir)
		if err == nil && (dir == own+"/fd" || dir == "/dev/fd" || thread) {
			return number
		}
		target, err := os.Readlink(path)
		if err != nil {
			return -1
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(dir, target)
		}
		path = target
	}
	return -1
}
