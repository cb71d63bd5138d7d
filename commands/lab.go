package commands

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/kballard/go-shellquote"

	"choria-provision/internal/fleet"
	"choria-provision/internal/lab"
)

// labOptions are the flags of lab.
type labOptions struct {
	lab.Options
	expect    int // nodes in service after the command; negative: all
	faults    []string
	junitFile string // where the result goes for CI systems; empty: nowhere
	command   []string
}

func (a *app) lab() {
	var o labOptions
	c := a.cli.Command("lab", "Starts a broker and real servers to provision, on this machine only")
	intFlag(c.Flag("nodes", "Number of servers").Default("3"), 0, &o.Nodes)
	c.Flag("enrollment", "Kind of network: insecure, pki or issuer").Default(lab.Issuer).EnumVar(&o.Enrollment, lab.Insecure, lab.PKI, lab.Issuer)
	intFlag(c.Flag("hosts", "Run the command as this many hosts that share their records; not with --enrollment insecure").PlaceHolder("N"), 1, &o.Hosts)
	c.Flag("keep", "Put everything into this directory, empty or absent, and leave it there").PlaceHolder("DIR").StringVar(&o.Dir)
	c.Flag("helper", "Command line of a helper to use instead of the lab's own").PlaceHolder("CMD").StringVar(&o.Helper)
	c.Flag("upgrade", "Serve releases, and have the lab's helper upgrade each server to this one first").PlaceHolder("VERSION").StringVar(&o.Upgrade)
	intFlag(c.Flag("simulate", "Add this many light simulated nodes").PlaceHolder("N"), 0, &o.Simulate)
	c.Flag("fault", "Make a share of the simulated nodes misbehave: silent, slow, twin, refuse, garbage, dead or comeback; repeatable").PlaceHolder("KIND:SHARE").StringsVar(&o.faults)
	intFlag(c.Flag("per-connection", "Simulated nodes that share a broker connection").PlaceHolder("N").Default("500"), 1, &o.PerConnection)
	intFlag(c.Flag("expect", "Number of nodes that are in service after the command (default: all that can be)").PlaceHolder("N").Default("-1"), -1, &o.expect)
	c.Flag("junit", "Write the result to this file as JUnit XML, a test case per server").PlaceHolder("FILE").StringVar(&o.junitFile)
	c.Arg("command", "Command to run in the lab, written after --").StringsVar(&o.command)
	a.chooses(c, func(stop context.Context) error { return a.runLab(stop, o) })
}

func (a *app) runLab(stop context.Context, o labOptions) (err error) {
	if err := o.check(); err != nil {
		return usageError{err}
	}
	l, err := lab.Start(stop, o.Options)
	if err != nil {
		return interruptedOr(stop, err)
	}
	defer func() { err = errors.Join(err, l.Close()) }()

	if len(o.command) == 0 {
		if err := a.explainLab(l, o); err != nil {
			return err
		}
		<-stop.Done()
		return nil
	}
	ended := a.runOnHosts(stop, l, o)
	if stop.Err() != nil { // nothing is to be expected of the servers
		if ended == nil {
			return errInterrupted
		}
		return ended
	}
	var t tally
	ended = errors.Join(ended, a.verifyLab(stop, l, o, &t))
	if o.junitFile == "" || stop.Err() != nil {
		return ended
	}
	return errors.Join(ended, o.writeJUnit(l, t, ended))
}

// check reads the faults and finds numbers that cannot be.
func (o *labOptions) check() error {
	if nodes := o.Nodes + o.Simulate; min(o.Nodes, o.Simulate) < 0 || nodes < 1 || o.expect > nodes {
		return fmt.Errorf("--nodes %d and --simulate %d with --expect %d: at least one node is needed, and no more can be expected", o.Nodes, o.Simulate, o.expect)
	}
	if o.Hosts > 0 && o.Enrollment == lab.Insecure {
		return errors.New("--hosts with --enrollment insecure: hosts share records on issuer and pki networks")
	}
	if o.Upgrade != "" && o.Simulate > 0 {
		return errors.New("--upgrade with --simulate: only servers can be upgraded")
	}
	if len(o.faults) > 0 && o.Simulate == 0 {
		return errors.New("--fault without --simulate: only simulated nodes misbehave")
	}
	if o.junitFile != "" && len(o.command) == 0 {
		return errors.New("--junit without a command: there is no result to write")
	}
	return o.parseFaults()
}

// parseFaults adds what --fault names to the options of the lab.
func (o *labOptions) parseFaults() error {
	for _, text := range o.faults {
		fault, err := fleet.ParseFault(text)
		if err != nil {
			return fmt.Errorf("--fault: %w", err)
		}
		o.Faults = append(o.Faults, fault)
	}
	return nil
}

// interruptedOr is err, unless it only shows that we were told to stop.
func interruptedOr(stop context.Context, err error) error {
	if stop.Err() != nil {
		return errInterrupted
	}
	return err
}

// explainLab says how to use a lab that waits.
func (a *app) explainLab(l *lab.Lab, o labOptions) error {
	var exports strings.Builder
	for _, pair := range l.Exports() {
		name, value, _ := strings.Cut(pair, "=")
		fmt.Fprintf(&exports, "    export %s=%s\n", name, shellquote.Join(value))
	}
	if o.Hosts > 0 {
		fmt.Fprintf(&exports, "\nand for one of the %d hosts, here the first:\n\n", o.Hosts)
		for _, pair := range l.HostExports(0) {
			name, value, _ := strings.Cut(pair, "=")
			fmt.Fprintf(&exports, "    export %s=%s\n", name, shellquote.Join(value))
		}
	}
	_, err := fmt.Fprintf(a.Out, "%s to be provisioned. In another terminal:\n\n%s\nthen provision discover, provision once. Logs and everything else are in\n%s. Ctrl-C ends the lab.\n",
		waiting(o), &exports, l.Dir())
	return err
}
