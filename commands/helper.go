package commands

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"choria-provision/config"
	"choria-provision/discovery"
	"choria-provision/output"
	"choria-provision/provision"
	"choria-provision/provision/helper"
)

// sampleIdentity names the node that is made up when nobody names one.
const sampleIdentity = "sample.example.net"

type helperOptions struct{ input, identity string }

// helper declares helper run.
func (a *app) helper() {
	var o helperOptions
	h := a.cli.Command("helper", "Tries the configured helper")
	run := h.Command("run", "Runs the configured helper on a sample or real input and checks its answer; no node is involved")
	run.Flag("input", "File with the input of a real node; a sample for the enabled features is made up without").PlaceHolder("FILE").StringVar(&o.input)
	run.Flag("identity", "Identity of the node in the input").PlaceHolder("NAME").StringVar(&o.identity)
	a.chooses(run, func(stop context.Context) error { return a.runHelper(stop, o) })
}

func (a *app) runHelper(stop context.Context, o helperOptions) error {
	cfg, err := a.load()
	if err != nil {
		return err
	}
	in, err := o.helperInput(cfg)
	if err != nil {
		return err
	}
	exec := helper.Exec{Command: cfg.Helper, Timeout: cfg.HelperTimeout.Duration}
	var h helper.Helper = exec
	if cfg.HelperMode == config.HelperPersistent { // its answers must satisfy more
		pool := helper.NewPool(exec)
		defer pool.Close()
		h = pool
	}
	trial, err := helper.Rehearse(stop, h, in, helper.RehearseOptions{Config: cfg, Valid: discovery.ValidIdentity, Upgrading: provision.Upgrading})
	if err != nil && stop.Err() != nil {
		return fmt.Errorf("%w: the helper was ended", interruption(stop))
	}
	report := newTrialReport(in.Identity, trial, err).safe(output.NewRedactor(secretsOf(cfg)))
	if shown := a.showTrial(report, trial.Took); shown != nil {
		return shown
	}
	if err != nil {
		return silent{fmt.Errorf("%w: %w", errNodesFailed, err)}
	}
	return nil
}

// helperInput reads the input of a real node, or makes one up.
func (o helperOptions) helperInput(cfg *config.Config) (in helper.Input, err error) {
	if o.input == "" {
		identity := o.identity
		if identity == "" {
			identity = sampleIdentity
		}
		return helper.SampleInput(identity, cfg)
	}
	text, err := os.ReadFile(o.input)
	if err != nil {
		return in, usageError{fmt.Errorf("--input: %w", err)}
	}
	if err := json.Unmarshal(text, &in); err != nil {
		return in, usageError{fmt.Errorf("--input: %s is not what a helper is given: %w", o.input, err)}
	}
	if o.identity != "" {
		in.Identity = o.identity
	}
	if in.Identity == "" {
		return in, usageError{errors.New("--input: it names no identity; add one with --identity")}
	}
	return in, nil
}

// trialReport is the JSON document of helper run.
type trialReport struct {
	SchemaVersion  int               `json:"schema_version"`
	Identity       string            `json:"identity"`
	Outcome        string            `json:"outcome"` // configure, upgrade, defer, shutdown or failed
	Message        string            `json:"message,omitempty"`
	Error          string            `json:"error,omitempty"`
	Warnings       []string          `json:"warnings"`
	Duration       float64           `json:"duration"`                // of the call, in seconds
	Configuration  map[string]string `json:"configuration,omitempty"` // secrets masked
	ActionPolicies []string          `json:"action_policies,omitempty"`
	OPAPolicies    []string          `json:"opa_policies,omitempty"`
	Credentials    []string          `json:"credentials,omitempty"` // which came, never what is in them
	Upgrade        string            `json:"upgrade,omitempty"`
}

func newTrialReport(identity string, t helper.Rehearsal, err error) trialReport {
	r := trialReport{
		SchemaVersion:  output.SchemaVersion,
		Identity:       identity,
		Outcome:        "configure",
		Message:        t.Answer.Message,
		Warnings:       append([]string{}, t.Warnings...),
		Duration:       output.Seconds(t.Took),
		Configuration:  t.Configuration,
		ActionPolicies: slices.Sorted(maps.Keys(t.Answer.ActionPolicies)),
		OPAPolicies:    slices.Sorted(maps.Keys(t.Answer.OPAPolicies)),
		Upgrade:        t.Answer.Upgrade,
	}
	for _, credential := range []struct{ name, text string }{
		{"key", t.Answer.Key}, {"certificate", t.Answer.Certificate}, {"ca", t.Answer.CA},
	} {
		if credential.text != "" {
			r.Credentials = append(r.Credentials, credential.name)
		}
	}
	switch {
	case err != nil:
		r.Outcome, r.Error = "failed", err.Error()
	case t.Answer.Defer:
		r.Outcome = "defer"
	case t.Answer.Shutdown:
		r.Outcome = "shutdown"
	case t.Upgrading:
		r.Outcome = "upgrade"
	}
	return r
}

// safe returns the report without secrets that the helper repeats, and with its
// texts escaped. The configuration is escaped when it is shown as text.
func (r trialReport) safe(redactor output.Redactor) trialReport {
	r = output.Redact(redactor, r)
	r.Message, r.Error = output.Escape(r.Message), output.Escape(r.Error)
	for i, warning := range r.Warnings {
		r.Warnings[i] = output.Escape(warning)
	}
	return r
}

func (a *app) showTrial(r trialReport, took time.Duration) error {
	if a.output == "json" {
		return a.writeJSON(r)
	}
	_, err := fmt.Fprint(a.Out, r.text(took))
	return err
}

// text is the report for people; all of it may come from the helper.
func (r trialReport) text(took time.Duration) string {
	var b strings.Builder
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&b, "%-16s %s\n", name, output.Escape(value))
		}
	}
	line("identity", r.Identity)
	line("outcome", r.Outcome)
	line("took", output.FormatDuration(took))
	line("message", r.Message)
	line("error", r.Error)
	for _, warning := range r.Warnings {
		line("warning", warning)
	}
	line("upgrade", r.Upgrade)
	line("credentials", strings.Join(r.Credentials, ", "))
	line("action policies", strings.Join(r.ActionPolicies, ", "))
	line("opa policies", strings.Join(r.OPAPolicies, ", "))
	if len(r.Configuration) > 0 {
		b.WriteString("configuration\n")
	}
	for _, key := range slices.Sorted(maps.Keys(r.Configuration)) {
		fmt.Fprintf(&b, "  %s = %s\n", output.Escape(key), output.Escape(r.Configuration[key]))
	}
	return b.String()
}
