package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// readable reports why path cannot be read as a file; nil means that it can.
// text is its content.
func readable(key, path string) (text []byte, problem *finding) {
	refuse := func(text, remedy string) ([]byte, *finding) {
		f := mistake(key, fmt.Sprintf("%s %s", absolute(path), text), remedy)
		return nil, &f
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return refuse("does not exist", "create it, or write the path of one that does")
	case err != nil:
		return refuse("cannot be read: "+cause(err), "give this user the right to read it")
	case !info.Mode().IsRegular():
		return refuse("is not a file", "write the path of a file")
	case info.Size() > maxFile:
		return refuse(fmt.Sprintf("is larger than %d KiB", maxFile>>10), "write the path of the right file")
	}
	text, err = os.ReadFile(path)
	if err != nil {
		return refuse("cannot be read: "+cause(err), "give this user the right to read it")
	}
	return text, nil
}

// checkAccess warns about a file that everybody may read or change.
func checkAccess(key, path string) []finding {
	info, err := os.Stat(path)
	if err != nil || info.IsDir() {
		return nil
	}
	var what string
	switch {
	case info.Mode().Perm()&0o002 != 0:
		what = "can be changed by everybody on this machine"
	case info.Mode().Perm()&0o004 != 0:
		what = "can be read by everybody on this machine"
	default:
		return nil
	}
	text, remedy := what, "take that right away: chmod o-rwx "+absolute(path)
	if key != "" {
		text = absolute(path) + " " + what
	}
	return []finding{warning(key, text, remedy)}
}

// checkSecrets holds that each secret has one source, which can be read.
func checkSecrets(c *Config) []finding {
	found := checkSecret("token", "token_file", c.Token, c.TokenFile)
	found = append(found, checkSecret("broker_provisioning_password", "broker_provisioning_password_file", c.BrokerPassword, c.BrokerPasswordFile)...)
	if !c.Token.IsSet() {
		found = append(found, warning("token", "is missing: nodes refuse a provisioner that does not know the token of their provisioning.jwt", "write it, or the file that holds it as token_file"))
	}
	return found
}

func checkSecret(key, fileKey string, secret Secret, file string) []finding {
	switch {
	case secret.value != "" && file != "":
		return []finding{mistake(fileKey, "is given beside "+key, "keep one of the two")}
	case secret.file != "":
		if file == "" { // a credential of systemd: no key to point at, and its rights are systemd's
			return checkSecretContent(key, secret.file)
		}
		return checkSecretFile(fileKey, secret.file)
	case secret.value == Redacted:
		return []finding{warning(key, "is the mask that config show prints", "write the secret itself")}
	case secret.value != "":
		return checkSecretText(key, "", secret.value)
	}
	return nil
}

func asList(f *finding) []finding {
	if f == nil {
		return nil
	}
	return []finding{*f}
}

// checkHelper holds that the helper is there and can be started. A name
// without slash is looked for in path, as it will be when it runs.
func checkHelper(c *Config, path string) []finding {
	if len(c.Helper.Args) == 0 {
		return []finding{mistake("helper", "is missing", "write the command that answers with a node's configuration")}
	}
	name := c.Helper.Args[0]
	if !strings.Contains(name, "/") {
		for _, dir := range filepath.SplitList(path) {
			if info, err := os.Stat(filepath.Join(dir, name)); err == nil && info.Mode().IsRegular() {
				return checkProgram(filepath.Join(dir, name))
			}
		}
		return []finding{mistake("helper", fmt.Sprintf("%s is not in any directory of $PATH", name), "write its whole path")}
	}
	return checkProgram(name)
}

func checkProgram(path string) []finding {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return []finding{mistake("helper", absolute(path)+" does not exist", "write the path of the helper")}
	case err != nil:
		return []finding{mistake("helper", fmt.Sprintf("%s cannot be looked at: %s", absolute(path), cause(err)), "give this user the right to run it")}
	case !info.Mode().IsRegular():
		return []finding{mistake("helper", absolute(path)+" is not a file", "write the path of a program")}
	case unix.Access(path, unix.X_OK) != nil:
		return []finding{mistake("helper", absolute(path)+" is not executable", "run: chmod +x "+absolute(path))}
	}
	if fault, remedy := ProgramFault(path); fault != "" {
		return []finding{mistake("helper", absolute(path)+" "+fault, remedy)}
	}
	return nil
}

// checkPlaces holds that what will be written has somewhere to go. Nothing is
// created to find out.
func checkPlaces(c *Config) []finding {
	var found []finding
	if !slices.Contains([]string{toStderr, toStdout, toDiscard}, c.LogFile) {
		found = append(found, checkPlace("logfile", c.LogFile)...)
	}
	found = append(found, checkPlace("metrics_textfile", c.MetricsTextfile)...)
	if c.MetricsTextfile != "" && filepath.Ext(c.MetricsTextfile) != ".prom" {
		found = append(found, warning("metrics_textfile", "node_exporter reads only files that end in .prom", "give it a name such as choria_provision.prom"))
	}
	return found
}

// checkPlace holds that path can be written, if it is set. A textfile is replaced
// instead, which only a regular file can be.
func checkPlace(key, path string) []finding {
	if path == "" {
		return nil
	}
	dir := filepath.Dir(absolute(path))
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return []finding{mistake(key, fmt.Sprintf("there is no directory %s", dir), "create it, or write a path in one that exists")}
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil
	case info.IsDir():
		return []finding{mistake(key, absolute(path)+" is a directory", "write the path of a file")}
	case key == "metrics_textfile" && !info.Mode().IsRegular():
		return []finding{mistake(key, absolute(path)+" is not a file", "write the path of a file, which is replaced at each run")}
	}
	return nil
}

// checkStateDir points at whatever named the directory.
func checkStateDir(c *Config, o Overrides) []finding {
	if c.StateDir == "" {
		return []finding{mistake("state_dir", "is missing, and neither $XDG_STATE_HOME nor $HOME says where this user keeps state", "write the path of a directory, or give it with --state-dir")}
	}
	if info, err := os.Stat(c.StateDir); err != nil || info.IsDir() {
		return nil
	}
	f := mistake("state_dir", c.StateDir+" is not a directory", "write the path of a directory; it is created when it does not exist")
	f.File = stateDirNamed(o)
	return []finding{f}
}
