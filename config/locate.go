package config

import (
	"os"
	"path/filepath"
	"strings"
)

// Where the configuration is looked for when nothing names one.
const (
	DefaultFile = "/etc/choria-provision/provision.yaml"
	PeerFile    = "/etc/choria-provisioner/choria-provisioner.yaml"
)

// defaultStateDir is root's when neither flag, key nor systemd names one.
const defaultStateDir = "/var/lib/choria-provision"

// Locate returns the file to load: flag when it is set, else
// $PROVISION_CONFIG, else DefaultFile, else PeerFile when only that exists.
// The file returned need not exist: loading it says so.
func Locate(flag string, getenv func(string) string) string {
	return locate(flag, getenv, func(path string) bool {
		_, err := os.Stat(path)
		return err == nil
	})
}

func locate(flag string, getenv func(string) string, exists func(string) bool) string {
	if flag != "" {
		return flag
	}
	if named := getenv("PROVISION_CONFIG"); named != "" {
		return named
	}
	if !exists(DefaultFile) && exists(PeerFile) {
		return PeerFile
	}
	return DefaultFile
}

// stateDir resolves the state directory; key is what the file says. systemd
// may list several directories, of which the first is ours. It is empty when
// nothing names one.
func stateDir(o Overrides, key string) string {
	systemd, _, _ := strings.Cut(o.Getenv("STATE_DIRECTORY"), ":")
	for _, named := range []string{o.StateDir, o.Getenv("PROVISION_STATE_DIR"), key, systemd} {
		if named != "" {
			return absolute(named)
		}
	}
	if o.Root {
		return defaultStateDir
	}
	if xdg := o.Getenv("XDG_STATE_HOME"); filepath.IsAbs(xdg) { // relative ones do not count, says the XDG specification
		return filepath.Join(xdg, "choria-provision")
	}
	if home := o.Getenv("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, ".local", "state", "choria-provision")
	}
	return "" // a path from the working directory would be another one at each call
}

// stateDirNamed is what outweighs the key state_dir, if anything does.
func stateDirNamed(o Overrides) string {
	switch {
	case o.StateDir != "":
		return "--state-dir"
	case o.Getenv("PROVISION_STATE_DIR") != "":
		return "$PROVISION_STATE_DIR"
	}
	return ""
}

// absolute is what an operator needs to see: relative paths count from the
// working directory, which is rarely the one they have in mind.
func absolute(path string) string {
	abs, err := filepath.Abs(path)
	if err != nil {
		return path
	}
	return abs
}
