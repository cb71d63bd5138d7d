package commands

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/kballard/go-shellquote"

	"choria-provision/internal/lab"
	"choria-provision/output"
)

// labOptions are the flags of lab.
type labOptions struct {
	lab.Options
	expect  int // servers in service after the command; negative: all
	command []string
}

func (a *app) lab() {
	var o labOptions
	c := a.cli.Command("lab", "Starts a broker and real servers to provision, on this machine only")
	c.Flag("nodes", "Number of servers").Default("3").IntVar(&o.Nodes)
	c.Flag("enrollment", "Kind of network: insecure, pki or issuer").Default(lab.Issuer).EnumVar(&o.Enrollment, lab.Insecure, lab.PKI, lab.Issuer)
	c.Flag("keep", "Put everything into this directory, empty or absent, and leave it there").PlaceHolder("DIR").StringVar(&o.Dir)
	c.Flag("helper", "Command line of a helper to use instead of the lab's own").PlaceHolder("CMD").StringVar(&o.Helper)
	c.Flag("expect", "Number of servers that are in service after the command (default: all)").PlaceHolder("N").Default("-1").IntVar(&o.expect)
	c.Arg("command", "Command to run in the lab, written after --").StringsVar(&o.command)
	a.chooses(c, func(stop context.Context) error { return a.runLab(stop, o) })
}

func (a *app) runLab(stop context.Context, o labOptions) (err error) {
	if o.Nodes < 1 || o.expect > o.Nodes {
		return usageError{fmt.Errorf("--nodes %d with --expect %d: at least one node is needed, and no more can be expected", o.Nodes, o.expect)}
	}
	l, err := lab.Start(stop, o.Options)
	if err != nil {
		return interruptedOr(stop, err)
	}
	defer func() { err = errors.Join(err, l.Close()) }()

	if len(o.command) == 0 {
		a.explainLab(l)
		<-stop.Done()
		return nil
	}
	ended := a.runInLab(stop, l, o.command)
	if stop.Err() != nil { // nothing is to be expected of the servers
		if ended == nil {
			return errInterrupted
		}
		return ended
	}
	return errors.Join(ended, a.verifyLab(stop, l, o))
}

// interruptedOr is err, unless it only shows that we were told to stop.
func interruptedOr(stop context.Context, err error) error {
	if stop.Err() != nil {
		return errInterrupted
	}
	return err
}

// explainLab says how to use a lab that waits.
func (a *app) explainLab(l *lab.Lab) {
	fmt.Fprintf(a.Out, "%d servers wait to be provisioned. In another terminal:\n\n", len(l.NodeNames()))
	for _, pair := range l.Exports() {
		name, value, _ := strings.Cut(pair, "=")
		fmt.Fprintf(a.Out, "    export %s=%s\n", name, shellquote.Join(value))
	}
	fmt.Fprintf(a.Out, "\nthen provision discover, provision once. Logs and everything else are in\n%s. Ctrl-C ends the lab.\n", l.Dir())
}

// verifyLab shows what became of each server; the error says that it is not
// what was expected.
func (a *app) verifyLab(stop context.Context, l *lab.Lab, o labOptions) error {
	findings, err := l.Verify(stop)
	if err != nil {
		return interruptedOr(stop, err)
	}
	up, wrong := 0, 0
	for _, f := range findings {
		seen := f.Problem
		switch f.State {
		case lab.InService:
			up++
			seen = strings.Join(f.Seen, "; ")
		case lab.Wrong, lab.Lost:
			wrong++
		}
		fmt.Fprintf(a.Err, "lab: %s %s: %s\n", f.Node, f.State, output.Escape(seen))
	}
	fmt.Fprintf(a.Err, "lab: %d of %d servers in service\n", up, o.Nodes)
	if o.expect < 0 {
		o.expect = o.Nodes
	}
	switch {
	case wrong > 0:
		return fmt.Errorf("%d of the lab's servers are in production and not in order, or lost", wrong)
	case up != o.expect:
		return fmt.Errorf("%d of the lab's servers are in service, %d were expected", up, o.expect)
	}
	return nil
}
