package commands

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"choria-provision/config"
	"choria-provision/internal/network"
	"choria-provision/output"
	"choria-provision/output/metrics"
	"choria-provision/provision"
	"choria-provision/provision/installstate"

	"github.com/sirupsen/logrus"
)

// seen is everything that observes a cycle and outlives its work.
type seen struct {
	tell     func(any)
	redactor output.Redactor
	logger   *logrus.Logger
	report   *output.Report
	metrics  *metrics.Metrics
	live     *output.Live // nil where nothing moves
}

func (c *cycle) observers() (*seen, error) {
	s := &seen{redactor: output.NewRedactor(secretsOf(c.cfg))}
	terminal := output.IsTerminal(c.Err) && c.output == "text" && !c.unattended
	sinks := output.SelectSinks(c.cfg.LogFile, c.logFormat, terminal)
	stderr := c.Err
	if file, ok := c.Err.(*os.File); ok && sinks.Live {
		s.live = output.NewLive(file, output.PageOptions{Color: c.color})
		stderr = s.live
	}
	var err error
	var closeLog func() error
	if s.logger, closeLog, err = c.logger(c.cfg, stderr, s.redactor); err != nil {
		s.closeLive()
		return nil, fmt.Errorf("%w: %w", errConfig, err)
	}
	// After the connection is closed, which go-choria logs: closers run backwards.
	c.closers = append(c.closers, func() { _ = closeLog() })

	s.metrics = metrics.New(c.cfg.Site, version())
	if !c.options.dryRun && !c.options.noMetrics {
		if err := s.metrics.Carry(c.store); err != nil {
			s.logger.Warnf("counters start again: %v", err)
		}
	}
	s.report = output.NewReport(c.runInfo())
	observers := []output.Observer{s.report, s.metrics, output.NewLogEvents(s.logger, sinks.Log)}
	if s.live != nil {
		observers = append(observers, s.live)
	}
	if sinks.Lines {
		observers = append(observers, output.NewLineLog(stderr, output.LineLogOptions{Quiet: c.unattended, Brief: c.output == "text" && c.oneStream()}))
	}
	s.tell = s.redactor.Emit(output.Emit(observers...))
	return s, nil
}

// oneStream reports whether stdout and stderr are the same file: a pipe, a
// journal, a log file of both.
func (a *app) oneStream() bool {
	out, isFile := a.result.Writer.(*os.File)
	err, isFileToo := a.Err.(*os.File)
	if !isFile || !isFileToo {
		return false
	}
	one, failed := out.Stat()
	other, failedToo := err.Stat()
	return failed == nil && failedToo == nil && os.SameFile(one, other)
}

// logger makes the logger of this process. go-choria tells much at info level
// that only its authors want to know: on stderr it starts at warnings, unless
// --debug asks for everything.
func (a *app) logger(cfg *config.Config, stderr io.Writer, redactor output.Redactor) (*logrus.Logger, func() error, error) {
	level := cfg.LogLevel
	if cfg.LogFile == "" && level == "info" && a.logFormat == "text" {
		level = "warn"
	}
	return output.NewLogger(output.LogOptions{Level: level, Format: a.logFormat, File: cfg.LogFile, Stderr: stderr, Redactor: redactor})
}

// secretsOf lists the texts that no log line may hold. A gateway may repeat in
// its answer what it was told.
func secretsOf(cfg *config.Config) (secrets []string) {
	for _, value := range cfg.Pushgateway.Headers {
		secrets = append(secrets, value)
	}
	push := config.Secret{}
	if cfg.Pushgateway.PasswordFile != "" {
		push = config.NewSecretFile(cfg.Pushgateway.PasswordFile)
	}
	for _, secret := range []config.Secret{cfg.Token, cfg.BrokerPassword, push} {
		if text, err := secret.Reveal(); err == nil && text != "" {
			secrets = append(secrets, text)
		}
	}
	return secrets
}

func (s *seen) closeLive() {
	if s.live != nil {
		s.live.Close()
	}
}

// abort ends a run that did nothing (locked, paused, standby). Its document is
// shown to programs and stored nowhere: the last report stays that of a run that
// worked.
func (c *cycle) abort(err error) error {
	err = c.app.redactor().Error(err)
	if c.output != "json" {
		return err
	}
	doc := output.NewReport(c.runInfo()).Finish(output.End{ExitCode: exitCode(err, c.unattended), Err: err, Finished: time.Now()})
	doc.Run.Error, doc.Run.Cause = output.Escape(withoutNothing(err)), abortCause(err, doc.Run.Cause)
	return errors.Join(err, doc.WriteJSON(c.Out))
}

// abortCause is the id of what kept a run from working; known is that of the
// table of causes, which knows the failures.
func abortCause(err error, known string) string {
	switch {
	case !errors.Is(err, errNothing):
		return known
	case errors.Is(err, installstate.ErrLockHeld):
		return "locked"
	case errors.Is(err, network.ErrStandby):
		return "standby"
	default:
		return "paused"
	}
}

func (c *cycle) runInfo() output.RunInfo {
	return output.RunInfo{ID: c.id, Command: c.options.command, Site: c.cfg.Site, Version: version(), DryRun: c.options.dryRun, Started: c.started}
}

// end leaves the report and everything that is made from it, and returns the
// verdict. What cannot be left changes the verdict only when it was good.
func (s *seen) end(c *cycle, sum provision.Summary, err error) error {
	s.closeLive()
	verdict := s.redactor.Error(c.verdict(sum, err))
	end := output.End{ExitCode: exitCode(verdict, c.unattended), Err: shown(verdict), Finished: time.Now()}
	doc := s.report.Finish(end)
	var problems []error
	if !c.options.dryRun {
		problems = append(problems, c.remember(&doc))
	}
	if !c.options.dryRun && !c.options.noMetrics {
		s.publish(c, end)
	}
	problems = append(problems, c.show(doc))
	if failure := errors.Join(problems...); failure != nil && verdict == nil {
		return failure
	}
	return verdict
}

// remember leaves the report for status and for the next run, with what the one
// before it says of nodes that this one did not come to.
func (c *cycle) remember(doc *output.Document) error {
	if last, err := lastReport(c.store); err == nil && last != nil {
		doc.KeepUnresolved(*last, func(identity string) bool {
			record, err := c.store.Load(identity)
			return err == nil && record.Phase == installstate.Complete
		})
	}
	packed, err := doc.Save(filepath.Join(c.cfg.StateDir, output.LastRunFile))
	if packed == nil { // no copy: what status and the next run read is kept all the same
		var failure error
		if packed, failure = doc.Pack(); failure != nil {
			return errors.Join(err, failure)
		}
	}
	return errors.Join(err, c.store.SaveLastReport(packed))
}

// publish carries the counters on and hands the metrics out. None of it is
// worth failing a run for: a warning tells.
func (s *seen) publish(c *cycle, end output.End) {
	s.metrics.SetPaused(checkPause(c.store) != nil) // a pause in mid-run
	s.metrics.Finish(end, end.Finished.Sub(c.started))
	if err := s.metrics.Save(c.store); err != nil {
		s.logger.Warnf("counters were not carried on: %v", err)
	}
	if c.cfg.MetricsTextfile != "" {
		if err := metrics.WriteTextfile(c.cfg.MetricsTextfile, s.metrics); err != nil {
			s.logger.Warnf("metrics_textfile: %v", err)
		}
	}
	if c.cfg.Pushgateway.URL != "" {
		if err := metrics.NewPusher(c.cfg.Pushgateway, c.cfg.Site, c.store.Host()).Push(context.Background(), s.metrics); err != nil {
			s.logger.Warnf("metrics were not pushed: %v", err)
		}
	}
}

// shown leaves out what the report says in other words.
func shown(verdict error) error {
	var quiet silent
	if errors.As(verdict, &quiet) {
		return nil
	}
	return verdict
}

// show writes the result to stdout.
func (c *cycle) show(doc output.Document) error {
	if c.output == "json" {
		return doc.WriteJSON(c.Out)
	}
	if c.unattended && output.NothingToDo(doc) {
		return nil
	}
	page := output.NewPage(c.Out, output.PageOptions{Color: c.color})
	output.Summary(page, doc)
	return page.Err()
}
