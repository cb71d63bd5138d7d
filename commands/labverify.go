package commands

import (
	"context"
	"fmt"
	"strings"

	"choria-provision/internal/lab"
	"choria-provision/output"
)

// tally is what became of a lab's nodes.
type tally struct {
	up    int // in service
	able  int // nodes that could be
	wrong int // in production and not in order, or lost

	findings []lab.Finding // of the servers
}

// waiting says who waits in a new lab.
func waiting(o labOptions) string {
	switch {
	case o.Upgrade != "":
		return fmt.Sprintf("%d servers wait, to be upgraded to %s and", o.Nodes, o.Upgrade)
	case o.Simulate == 0:
		return fmt.Sprintf("%d servers wait", o.Nodes)
	case o.Nodes == 0:
		return fmt.Sprintf("%d simulated nodes wait", o.Simulate)
	default:
		return fmt.Sprintf("%d servers and %d simulated nodes wait", o.Nodes, o.Simulate)
	}
}

// verifyLab shows what became of the nodes; the error says that it is not what
// was expected.
func (a *app) verifyLab(stop context.Context, l *lab.Lab, o labOptions, t *tally) error {
	if err := a.verifyServers(stop, l, t); err != nil {
		return err
	}
	if err := a.verifySimulated(l, o, t); err != nil {
		return err
	}
	expected := t.able
	if o.expect >= 0 {
		expected = o.expect
	}
	switch {
	case t.wrong > 0:
		return fmt.Errorf("%d of the lab's servers are in production and not in order, or lost", t.wrong)
	case t.up != expected:
		return fmt.Errorf("%d of the lab's nodes are in service, %d were expected", t.up, expected)
	}
	return nil
}

func (a *app) verifyServers(stop context.Context, l *lab.Lab, t *tally) error {
	findings, err := l.Verify(stop)
	if err != nil {
		return interruptedOr(stop, err)
	}
	for _, f := range findings {
		seen := f.Problem
		switch f.State {
		case lab.InService:
			t.up++
			seen = strings.Join(f.Seen, "; ")
		case lab.Wrong, lab.Lost:
			t.wrong++
		}
		fmt.Fprintf(a.Err, "lab: %s %s: %s\n", f.Node, f.State, output.Escape(seen))
	}
	t.able += len(findings)
	t.findings = findings
	if len(findings) > 0 {
		fmt.Fprintf(a.Err, "lab: %d of %d servers in service\n", t.up, len(findings))
	}
	return nil
}

// verifySimulated shows what the simulated nodes saw. Harm done to them is an
// error of its own.
func (a *app) verifySimulated(l *lab.Lab, o labOptions, t *tally) error {
	if o.Simulate == 0 {
		return nil
	}
	report, err := l.Simulated()
	if err != nil {
		return err
	}
	for _, g := range report.Groups {
		fmt.Fprintf(a.Err, "lab: simulated: %s\n", g)
	}
	for _, action := range report.Asked() {
		fmt.Fprintf(a.Err, "lab: simulated: %s\n", output.Escape(action))
	}
	for _, problem := range report.Problems {
		fmt.Fprintf(a.Err, "lab: simulated: %s\n", output.Escape(problem))
	}
	t.up += report.InService()
	t.able += report.Provisionable()
	return report.Check()
}
