package commands

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"choria-provision/output"
	"choria-provision/provision"

	"github.com/sirupsen/logrus"
)

// seen is everything that observes a cycle and outlives its work: the log, the
// report and what is shown of it.
type seen struct {
	logger *logrus.Logger
	report *output.Report
	tell   func(any)
}

func (c *cycle) observers() (*seen, error) {
	s := &seen{logger: logrus.New()}
	s.logger.SetOutput(c.Err)
	s.logger.SetLevel(logrus.WarnLevel)
	s.report = output.NewReport(output.RunInfo{
		ID: c.id, Command: c.options.command, Site: c.cfg.Site, Version: version(), DryRun: c.options.dryRun, Started: c.started,
	})
	s.tell = output.Tell(s.report)
	return s, nil
}

// nothing ends a cycle that may not be reported: another one is at work, or
// nobody is to be.
func (s *seen) nothing(err error) error { return err }

// end leaves the report and everything made from it, and returns the verdict.
func (s *seen) end(c *cycle, sum provision.Summary, err error) error {
	verdict := c.verdict(sum, err)
	doc := s.report.Finish(output.End{ExitCode: exitCode(verdict, c.unattended), Err: shown(verdict), Finished: time.Now()})
	var problems []error
	if !c.options.dryRun {
		problems = append(problems, doc.Save(filepath.Join(c.cfg.StateDir, output.LastRunFile)))
	}
	problems = append(problems, c.show(doc))
	if failure := errors.Join(problems...); failure != nil && verdict == nil {
		return failure
	}
	return verdict
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
		if err := doc.WriteJSON(c.Out); err != nil {
			return fmt.Errorf("writing the report: %w", err)
		}
		return nil
	}
	if c.unattended && output.NothingToDo(doc) {
		return nil
	}
	page := output.NewPage(c.Out, output.PageOptions{Color: c.color})
	output.Summary(page, doc)
	return page.Err()
}
