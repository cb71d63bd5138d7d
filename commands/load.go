package commands

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"

	"github.com/choria-io/go-choria/choria"
	choriaconfig "github.com/choria-io/go-choria/config"

	"choria-provision/config"
	"choria-provision/provision/trust"
)

// load finds, reads and checks the configuration, with the command line's
// overrides applied. Its warnings are shown, unless a timer calls: they would
// be in the journal at every run, and config check shows them. An error holds
// every problem and ends with exit code 2. Nothing is created.
func (a *app) load() (*config.Config, error) {
	cfg, warnings, err := config.Load(a.located(), a.overrides())
	if err != nil {
		return nil, configError{err}
	}
	a.loaded.Store(cfg)
	a.warn(warnings)
	return cfg, nil
}

// loadChoria makes the Choria client configuration that goes with cfg, on the
// same terms as load.
func (a *app) loadChoria(cfg *config.Config) (*choriaconfig.Config, error) {
	nameUser()
	made, warnings, err := cfg.Choria(a.locatedChoria(), os.Getenv)
	if err != nil {
		return nil, configError{err}
	}
	a.warn(warnings)
	return made, nil
}

func (a *app) located() string { return config.Locate(a.configFile, os.Getenv) }

// locatedChoria is the Choria client configuration: the one that is named, else
// client.conf beside the configuration file; empty for the user's.
func (a *app) locatedChoria() string {
	if a.choriaFile != "" {
		return a.choriaFile
	}
	beside := filepath.Join(filepath.Dir(a.located()), "client.conf")
	if _, err := os.Stat(beside); err != nil {
		return ""
	}
	return beside
}

func (a *app) overrides() config.Overrides {
	return config.Overrides{Getenv: os.Getenv, Keys: trust.Keys(), StateDir: a.stateDir, Debug: a.debug, Root: os.Geteuid() == 0, Stdout: fileOf(a.result.Writer)}
}

// fileOf returns what is known of the file behind w, nil when there is none.
func fileOf(w io.Writer) fs.FileInfo {
	file, ok := w.(*os.File)
	if !ok {
		return nil
	}
	info, err := file.Stat()
	if err != nil {
		return nil
	}
	return info
}

func (a *app) warn(problems []config.Problem) {
	if a.unattended {
		return
	}
	for _, p := range problems {
		a.say("warning", p.String())
	}
}

// nameUser sets $USER when it is missing, as it is under systemd and cron:
// go-choria's security provider choria refuses to work without.
func nameUser() {
	if os.Getenv("USER") != "" {
		return
	}
	if current, err := user.Current(); err == nil {
		os.Setenv("USER", current.Username)
	}
}

// choriaFileMissing reports whether nobody named a Choria configuration and
// this machine has none either, as when a configuration is checked elsewhere.
func (a *app) choriaFileMissing() bool {
	if a.locatedChoria() != "" {
		return false
	}
	_, err := os.Stat(choria.UserConfig())
	return errors.Is(err, fs.ErrNotExist)
}

// configError is a configuration that cannot be used, told in its own words.
type configError struct{ error }

// Unwrap names the cause that decides the exit code, beside the error itself.
func (c configError) Unwrap() []error { return []error{errConfig, c.error} }

func (c configError) Error() string { return fmt.Sprintf("%v\n%v", errConfig, c.error) }
