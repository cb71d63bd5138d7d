package commands

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"

	"choria-provision/examples"
	"choria-provision/internal/lab"
)

type initOptions struct {
	enrollment string
	dir        string
}

// serviceGroup is the group of the packages' service.
const serviceGroup = "choria-provision"

func (a *app) initialize() {
	var o initOptions
	c := a.cli.Command("init", "Writes a configuration to start from: provision.yaml, client.conf and a helper")
	c.Flag("enrollment", "How nodes get their credentials: insecure, pki or issuer").Default(lab.Issuer).EnumVar(&o.enrollment, lab.Insecure, lab.PKI, lab.Issuer)
	c.Flag("dir", "Directory to write to; made when it is missing").PlaceHolder("DIR").Default(examples.Dir).StringVar(&o.dir)
	a.chooses(c, func(context.Context) error { return a.runInit(o) })
}

// initFile is one file that init writes.
type initFile struct {
	name, example string
	mode          fs.FileMode
}

func (o initOptions) files() []initFile {
	suffix := "-" + o.enrollment
	if o.enrollment == lab.Issuer {
		suffix = ""
	}
	return []initFile{
		{"provision.yaml", "provision" + suffix + ".yaml", 0o640},
		{"client.conf", "client" + suffix + ".conf", 0o640},
		{"helper.sh", "helper" + suffix + ".sh", 0o755},
	}
}

// runInit writes all files or none.
func (a *app) runInit(o initOptions) error {
	dir, err := filepath.Abs(o.dir)
	if err != nil {
		return fmt.Errorf("--dir: %w", err)
	}
	var there []string
	for _, f := range o.files() {
		if _, err := os.Lstat(filepath.Join(dir, f.name)); err == nil {
			there = append(there, filepath.Join(dir, f.name))
		}
	}
	if len(there) > 0 {
		return fmt.Errorf("%w: %s: already there; move it away, or choose another directory with --dir", errNothing, strings.Join(there, ", "))
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return fmt.Errorf("--dir: %w", err)
	}
	var written []string
	for _, f := range o.files() {
		path, err := f.write(dir)
		if !errors.Is(err, fs.ErrExist) { // else it is another's
			written = append(written, path)
		}
		if err != nil {
			return errors.Join(err, removeAll(written))
		}
	}
	_, err = fmt.Fprintf(a.Out, "%s\n\nset the site's values in them and put the files they name beside them, then\n\n    %s\n    %s\n    %s\n",
		strings.Join(written, "\n"), o.command(dir, "config check"), o.command(dir, "helper run"), o.command(dir, "once --dry-run"))
	return err
}

// command is a command line that uses what was written.
func (o initOptions) command(dir, command string) string {
	if dir == examples.Dir {
		return "provision " + command
	}
	return "provision --config " + filepath.Join(dir, "provision.yaml") + " " + command
}

// write makes the file; nothing that is there is replaced.
func (f initFile) write(dir string) (path string, err error) {
	path = filepath.Join(dir, f.name)
	text, err := examples.Files.ReadFile(f.example)
	if err != nil {
		return path, err
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, f.mode)
	if err != nil {
		return path, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if err := file.Chmod(f.mode); err != nil { // the umask may have taken bits away
		return path, err
	}
	if err := giveToService(file); err != nil {
		return path, err
	}
	_, err = file.WriteString(strings.ReplaceAll(string(text), examples.Dir, dir))
	return path, err
}

// giveToService lets the service of the packages read a file that root wrote.
func giveToService(file *os.File) error {
	if os.Geteuid() != 0 {
		return nil
	}
	group, err := user.LookupGroup(serviceGroup)
	if err != nil {
		return nil //nolint:nilerr // there is no such service here
	}
	gid, err := strconv.Atoi(group.Gid)
	if err != nil {
		return err
	}
	return file.Chown(0, gid)
}

func removeAll(paths []string) (err error) {
	for _, path := range paths {
		if failed := os.Remove(path); failed != nil && !errors.Is(failed, fs.ErrNotExist) {
			err = errors.Join(err, failed)
		}
	}
	return err
}
