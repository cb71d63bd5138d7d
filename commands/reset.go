package commands

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"choria-provision/output"
	"choria-provision/provision/installstate"
)

type resetOptions struct {
	identities  []string
	all         bool
	yes         bool
	reprovision bool
	collective  string // empty: the node's own
}

func (a *app) reset() {
	var o resetOptions
	c := a.cli.Command("reset", "Forgets the records of nodes, so that they are provisioned as new ones")
	c.Arg("identity", "Names of the nodes").StringsVar(&o.identities)
	c.Flag("all", "Every node that has a record; asks first").UnNegatableBoolVar(&o.all)
	c.Flag("yes", "Do not ask").UnNegatableBoolVar(&o.yes)
	c.Flag("reprovision", "Also send the nodes back to provisioning mode").UnNegatableBoolVar(&o.reprovision)
	c.Flag("collective", "Collective in which to find a node for --reprovision").PlaceHolder("NAME").StringVar(&o.collective)
	c.Action(a.choose(func(stop context.Context) error { return a.runReset(stop, o) }))
}

func (o resetOptions) check() error {
	switch {
	case o.all && len(o.identities) > 0:
		return usageError{errors.New("name nodes or give --all, not both")}
	case !o.all && len(o.identities) == 0:
		return usageError{errors.New("name the nodes to reset, or give --all")}
	case slices.Contains(o.identities, ""):
		return usageError{errors.New("the name of a node is empty")}
	case o.collective != "" && !o.reprovision:
		return usageError{errors.New("--collective goes with --reprovision")}
	case o.collective != "":
		if err := checkCollective(o.collective); err != nil {
			return err
		}
	}
	if o.reprovision { // a record may be forgotten under any name, but not every name can be asked
		return checkIdentities(o.identities)
	}
	return nil
}

// runReset ends with exit code 0 also when a node had no record: whoever asks
// for a record to be gone has what they asked for.
func (a *app) runReset(stop context.Context, o resetOptions) error {
	if err := o.check(); err != nil {
		return err
	}
	cfg, err := a.load()
	if err != nil {
		return err
	}
	store, err := a.openStore(stop, cfg)
	if err != nil {
		return err
	}
	defer store.Close()
	r := resetter{store: store}
	names, err := a.resetNames(r.store, o)
	if err != nil {
		return err
	}
	if o.reprovision {
		send, closeSender, err := a.reprovisioner(stop, cfg, store, o.collective)
		if err != nil {
			return err
		}
		defer closeSender()
		r.send = send
	}
	results, err := r.resetAll(stop, names)
	err = errors.Join(err, forgetInReport(store, results))
	return errors.Join(a.showResets(results), err)
}

// resetNames returns the nodes to reset, after asking when it is all of them.
func (a *app) resetNames(store *installstate.Store, o resetOptions) ([]string, error) {
	if !o.all {
		return eachOnce(o.identities), nil
	}
	entries, err := store.List()
	if err != nil {
		return nil, err
	}
	var names []string
	for _, entry := range entries {
		if entry.HasRecord() {
			names = append(names, entry.Identity)
		}
	}
	if len(names) == 0 || o.yes {
		return names, nil
	}
	return names, a.confirmReset(len(names), o.reprovision)
}

func (a *app) confirmReset(nodes int, reprovision bool) error {
	if a.unattended {
		return usageError{errors.New("--all asks before it forgets records: give --yes where nobody can answer")}
	}
	what := "Forget " + count(nodes, "record")
	if reprovision {
		what += " and send these nodes back to provisioning mode"
	}
	fmt.Fprintf(a.Err, "%s? Type yes: ", what)
	answer, err := bufio.NewReader(a.In).ReadString('\n')
	if err != nil {
		fmt.Fprintln(a.Err)
		return usageError{errors.New("--all asks before it forgets records, and nobody answered: give --yes")}
	}
	if strings.TrimSpace(answer) != "yes" {
		return fmt.Errorf("%w: that was not yes", errNothing)
	}
	return nil
}

// resetDocument is what `--output json` prints.
type resetDocument struct {
	SchemaVersion int           `json:"schema_version"`
	Nodes         []resetResult `json:"nodes"`
}

func (a *app) showResets(results []resetResult) error {
	if a.output == "json" {
		return a.writeJSON(resetDocument{output.SchemaVersion, append([]resetResult{}, results...)})
	}
	if len(results) == 0 {
		fmt.Fprintln(a.Out, "no records, nothing to forget")
	}
	for _, r := range results {
		switch r.Outcome {
		case resetForgotten, resetReprovisioned:
			fmt.Fprintf(a.Out, "%s: %s\n", output.Escape(r.Identity), r.Outcome)
		case resetNone:
			fmt.Fprintf(a.Out, "%s: no record, nothing to forget\n", output.Escape(r.Identity))
		default:
			a.say("error", r.Error)
		}
	}
	return nil
}
