package installstate

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	driver "modernc.org/sqlite"
	result "modernc.org/sqlite/lib"
)

// ensureDirectory creates the state directory if it is missing and checks it.
func ensureDirectory(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return unavailable(dir, err)
	}
	return checkDirectory(dir)
}

// checkDirectory refuses a directory in which this user may not write, before
// anything is created there, and one in which any user may replace files. A
// missing directory is fs.ErrNotExist.
func checkDirectory(dir string) error {
	info, err := os.Stat(dir) // a link is fine: systemd makes one for a dynamic user
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return err
	case err != nil:
		return unavailable(dir, err)
	case !info.IsDir():
		return fmt.Errorf("%w: %s is not a directory", ErrUnavailable, dir)
	case info.Mode().Perm()&0o002 != 0:
		return fmt.Errorf("%w: %s can be written by every user; run `chmod o-w %s`", ErrUnavailable, dir, dir)
	}
	if err := checkAccess(dir, info, info); err != nil {
		return err
	}
	return checkGroup(dir, info)
}

// checkAccess returns an error that says what to do when this process may not
// write to path, which is the state directory or a file in it.
func checkAccess(path string, info, directory fs.FileInfo) error {
	err := unix.Faccessat(unix.AT_FDCWD, path, unix.W_OK, unix.AT_EACCESS)
	if err == nil {
		return nil
	}
	if !errors.Is(err, unix.EACCES) {
		return unavailable(path, err)
	}
	me := os.Geteuid()
	owner, _ := ownerOf(info)
	home, _ := ownerOf(directory)
	hint := fmt.Sprintf("run `runuser -u %s -- provision ...`", ownerName(directory))
	switch {
	case owner == me:
		hint = fmt.Sprintf("its mode is %04o: run `chmod u+rwX %s`", info.Mode().Perm(), path)
	case home == me:
		hint = fmt.Sprintf("it belongs to %s: as root run `chown %s %s`", ownerName(info), ownerName(directory), path)
	}
	return noAccess{fmt.Errorf("%w: uid %d may not write to %s; %s", ErrUnavailable, me, path, hint)}
}

// noAccess is ErrUnavailable that is fs.ErrPermission, too.
type noAccess struct{ error }

// Unwrap returns both.
func (n noAccess) Unwrap() []error { return []error{n.error, fs.ErrPermission} }

// handover bounds the wait for a file that root makes in another user's directory
// to become that user's: root makes it first and gives it away then.
const handover = time.Second

// awaitHandover tries again while the files may be on their way to this user.
func awaitHandover(try func() error) error {
	for end := time.Now().Add(handover); ; time.Sleep(handover / 100) {
		if err := try(); !mayBeHandedOver(err) || time.Now().After(end) {
			return err
		}
	}
}

func mayBeHandedOver(err error) bool {
	var failure *driver.Error
	return errors.Is(err, fs.ErrPermission) || errors.As(err, &failure) && failure.Code()&0xff == result.SQLITE_CANTOPEN
}

// checkGroup refuses a directory that a group shares when the files this process
// makes there would be of another group, and closed to the others in it.
func checkGroup(dir string, info fs.FileInfo) error {
	_, gid := ownerOf(info)
	shared := info.Mode().Perm()&0o020 != 0
	if !shared || info.Mode()&fs.ModeSetgid != 0 || os.Geteuid() == 0 || os.Getegid() == gid {
		return nil
	}
	return fmt.Errorf("%w: %s can be written by its group, but files made there do not get that group; run `chmod g+s %s`", ErrUnavailable, dir, dir)
}

func ownerName(info fs.FileInfo) string {
	uid, _ := ownerOf(info)
	if found, err := user.LookupId(strconv.Itoa(uid)); err == nil {
		return found.Username
	}
	return "'#" + strconv.Itoa(uid) + "'"
}

// RunAs returns the name of the user to run as when dir belongs to another user
// than root and this process; empty when this user is right.
func RunAs(dir string) string {
	info, err := os.Stat(dir)
	if err != nil {
		return ""
	}
	if uid, _ := ownerOf(info); uid == os.Geteuid() || uid == 0 {
		return ""
	}
	return ownerName(info)
}

// openRegular opens the file for reading and writing, and creates it first if it
// is missing. It follows no link and waits for no pipe, since the file may have
// been planted. A file that root creates belongs to the directory's owner, so
// that the service can use what an administrator's command leaves.
func openRegular(path string) (file *os.File, created bool, err error) {
	const flags = os.O_RDWR | unix.O_NOFOLLOW | unix.O_NONBLOCK
	dir, err := os.Stat(filepath.Dir(path))
	if err != nil {
		return nil, false, err
	}
	file, err = os.OpenFile(path, flags|os.O_CREATE|os.O_EXCL, fileMode(dir))
	if errors.Is(err, fs.ErrExist) {
		file, err = openPlain(path, flags)
		return file, false, err
	}
	if err != nil {
		return nil, false, err
	}
	if err := adopt(file, dir); err != nil {
		file.Close()
		_ = os.Remove(path)
		return nil, false, err
	}
	return file, true, nil
}

// openPlain opens a file that exists; anything but a regular file is an error.
func openPlain(path string, flags int) (*os.File, error) {
	file, err := os.OpenFile(path, flags|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, unix.ELOOP) {
		return nil, errors.New("it is a symbolic link, not a file of this program")
	}
	if err != nil {
		return nil, err
	}
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		file.Close()
		return nil, errors.Join(err, errors.New("it is not a regular file"))
	}
	return file, nil
}

// fileMode gives a group that may write to the directory the same right to the
// files in it.
func fileMode(dir fs.FileInfo) fs.FileMode {
	return 0o600 | dir.Mode().Perm()&0o020*3 // 0o060: reading goes with writing
}

// Adopt gives a new file in the state directory to the directory's owner when
// root created it, so that the service can read and replace it.
func Adopt(file *os.File) error {
	dir, err := os.Stat(filepath.Dir(file.Name()))
	if err != nil {
		return err
	}
	return adopt(file, dir)
}

func adopt(file *os.File, dir fs.FileInfo) error { return give(file, dir, fileMode(dir)) }

// give gives what this process made in dir its mode, to which the umask does not
// apply, and to the directory's owner what root made.
func give(file *os.File, dir fs.FileInfo, mode fs.FileMode) error {
	if err := file.Chmod(mode); err != nil {
		return err
	}
	uid, gid := ownerOf(dir)
	if os.Geteuid() != 0 || uid == 0 {
		return nil
	}
	return file.Chown(uid, gid)
}

// ownerOf returns the user and group that own the file.
func ownerOf(info fs.FileInfo) (uid, gid int) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, 0
	}
	return int(stat.Uid), int(stat.Gid)
}
