package commands

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"choria-provision/config"
	"choria-provision/output"
	"choria-provision/provision/installstate"

	"github.com/choria-io/go-choria/choria"
	choriaconfig "github.com/choria-io/go-choria/config"
)

// configure declares config check and config show.
func (a *app) configure() {
	c := a.cli.Command("config", "Checks and shows the configuration")
	check := c.Command("check", "Shows every problem of the configuration, with file, line and remedy")
	var connect bool
	check.Flag("connect", "Also connect: broker, account, collective, Choria Streams, Pushgateway; nothing is changed").UnNegatableBoolVar(&connect)
	a.chooses(check, func(stop context.Context) error { return a.runConfigCheck(stop, connect) })
	show := c.Command("show", "Shows the effective configuration, secrets masked")
	show.Action(a.choose(func(context.Context) error { return a.runConfigShow() }))
}

// verdict is the JSON document of config check.
type verdict struct {
	SchemaVersion int              `json:"schema_version"`
	File          string           `json:"file"`
	Valid         bool             `json:"valid"`
	RunAs         string           `json:"run_as,omitempty"` // owner of the state directory, when another user than this one
	Problems      []config.Problem `json:"problems"`
	Connections   []connection     `json:"connections,omitempty"` // of --connect, in the order they were tried
}

func (a *app) runConfigCheck(stop context.Context, connect bool) error {
	v, t := a.judge()
	if a.output != "json" {
		v.showProblems(a.Out)
	}
	if connect && v.Valid {
		t.stop = stop
		t.done = func(c connection) {
			v.Connections = append(v.Connections, c)
			if a.output != "json" {
				fmt.Fprintln(a.Out, c)
			}
		}
		t.run()
		if stop.Err() != nil {
			return fmt.Errorf("%w: while connecting", interruption(stop))
		}
	}
	if err := a.conclude(v, connect); err != nil {
		return err
	}
	if !v.Valid || t.failed > 0 {
		return silent{errConfig}
	}
	return nil
}

// judge loads both configurations and keeps what is said about them. The test
// of the connections has what was loaded.
func (a *app) judge() (verdict, *connectionTest) {
	v := verdict{SchemaVersion: output.SchemaVersion, File: absolute(a.located()), Valid: true, Problems: []config.Problem{}}
	t := &connectionTest{app: a}
	cfg, problems, err := config.Load(v.File, a.overrides())
	v.take(problems, err)
	if err != nil {
		return v, t
	}
	t.cfg, v.RunAs = cfg, installstate.RunAs(cfg.StateDir)
	if a.choriaFileMissing() {
		v.Problems = append(v.Problems, config.Problem{Severity: config.SeverityWarning,
			Text: "this machine has no Choria client configuration: that part was not checked", Remedy: "name one with --choria-config"})
		return v, t
	}
	nameUser()
	client, problems, err := cfg.Choria(a.locatedChoria(), os.Getenv)
	v.take(problems, err)
	if err == nil {
		v.trySecurity(client)
		t.client = client
	}
	v.tryRecords(cfg)
	return v, t
}

// tryRecords checks the configuration of the connection to shared records.
func (v *verdict) tryRecords(cfg *config.Config) {
	if cfg.Records != config.RecordsStreams {
		return
	}
	client, err := cfg.RecordsClient(os.Getenv)
	v.take(nil, err)
	if err == nil {
		v.trySecurity(client)
	}
}

// trySecurity has go-choria look for the certificates and keys it will sign and
// connect with: what it refuses now would end every run before it connects.
func (v *verdict) trySecurity(client *choriaconfig.Config) {
	client.CustomLogger = quiet()
	fw, err := choria.NewWithConfig(client)
	if err == nil && client.Choria.SecurityProvider == "puppet" && !client.DisableTLS {
		_, err = fw.ClientTLSConfig() // reads the files that package config does not know of
	}
	if err != nil {
		v.Valid = false
		v.Problems = append(v.Problems, config.Problem{Severity: config.SeverityError, File: absolute(client.ConfigFile),
			Text: err.Error(), Remedy: "mend what it names in this Choria client configuration"})
	}
}

func (v *verdict) take(problems []config.Problem, err error) {
	v.Problems = append(v.Problems, problems...)
	if err == nil {
		return
	}
	v.Valid = false
	var invalid *config.Invalid
	if errors.As(err, &invalid) {
		v.Problems = append(v.Problems, invalid.Problems...)
		return
	}
	v.Problems = append(v.Problems, config.Problem{Severity: config.SeverityError, Text: err.Error(), Remedy: "mend it"})
}

func (v verdict) showProblems(out io.Writer) {
	for _, p := range v.Problems {
		fmt.Fprintln(out, p)
	}
}

// conclude ends the result: the document, or what all the lines come to.
func (a *app) conclude(v verdict, connect bool) error {
	if a.output == "json" {
		return a.writeJSON(v)
	}
	var errs, warnings int
	for _, p := range v.Problems {
		if p.Severity == config.SeverityError {
			errs++
		} else {
			warnings++
		}
	}
	switch {
	case errs > 0:
		fmt.Fprintf(a.Out, "%s cannot be used: %s, %s\n", v.File, count(errs, "error"), count(warnings, "warning"))
	case warnings > 0:
		fmt.Fprintf(a.Out, "%s can be used: %s\n", v.File, count(warnings, "warning"))
	default:
		fmt.Fprintf(a.Out, "%s can be used\n", v.File)
	}
	if connect {
		fmt.Fprintln(a.Out, v.connected())
	}
	if v.RunAs != "" {
		fmt.Fprintf(a.Out, "run as the owner of the state directory: runuser -u %s -- provision ...\n", v.RunAs)
	}
	return nil
}

// connected is what the connections come to, in a line.
func (v verdict) connected() string {
	if !v.Valid {
		return "nothing was connected: correct the errors first"
	}
	failed := 0
	for _, c := range v.Connections {
		if !c.OK {
			failed++
		}
	}
	if failed > 0 {
		return fmt.Sprintf("connections: %d of %d failed", failed, len(v.Connections))
	}
	return fmt.Sprintf("connections: %d of %d work", len(v.Connections), len(v.Connections))
}

func (a *app) runConfigShow() error {
	cfg, err := a.load()
	if err != nil {
		return err
	}
	if a.output != "json" {
		_, err := a.Out.Write(cfg.YAML())
		return err
	}
	text, err := cfg.JSON()
	if err != nil {
		return err
	}
	_, err = a.Out.Write(text)
	return err
}

func (a *app) writeJSON(document any) error {
	return output.WriteJSON(a.Out, output.Redact(a.redactor(), document))
}

// absolute is path from the root; the working directory is always known where
// a file was found.
func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
