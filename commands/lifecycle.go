package commands

import (
	"context"
	"errors"
	"fmt"

	"choria-provision/config"
	"choria-provision/discovery"
	"choria-provision/output"
	"choria-provision/provision"
	"choria-provision/provision/installstate"

	"github.com/choria-io/fisk"
)

type lifecycleOptions struct {
	identities []string
	collective string
}

func (a *app) restart() {
	a.lifecycle("restart", "Restarts the Choria Server of the named nodes", "restarts", provision.Lifecycle.Restart)
}

func (a *app) shutdown() {
	a.lifecycle("shutdown", "Shuts the Choria Server of the named nodes down", "shuts down", provision.Lifecycle.Shutdown)
}

// lifecycleAction is one of provision.Lifecycle's methods.
type lifecycleAction func(l provision.Lifecycle, ctx context.Context, identity string) error

// lifecycleStep is what a command does to each node.
type lifecycleStep struct {
	name string
	does string // what a node does that agreed
	act  lifecycleAction
}

func (a *app) lifecycle(name, help, does string, act lifecycleAction) {
	var o lifecycleOptions
	c := a.cli.Command(name, help)
	c.Arg("identity", "Names of the nodes").Required().StringsVar(&o.identities)
	collectiveFlag(c, &o.collective)
	a.chooses(c, func(stop context.Context) error { return a.runLifecycle(stop, o, lifecycleStep{name, does, act}) })
}

// provisioningCollective is where nodes wait.
const provisioningCollective = "provisioning"

func collectiveFlag(c *fisk.CmdClause, collective *string) {
	c.Flag("collective", "Collective the nodes are in").Default(provisioningCollective).PlaceHolder("NAME").StringVar(collective)
}

// runLifecycle acts on each node under its mutation lock and goes on with the
// others when one cannot be acted on.
func (a *app) runLifecycle(stop context.Context, o lifecycleOptions, step lifecycleStep) error {
	if err := checkIdentities(o.identities); err != nil {
		return err
	}
	if err := checkCollective(o.collective); err != nil {
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
	if err := checkPause(store); err != nil {
		return err
	}
	l, done, err := a.lifecycleIn(stop, cfg, store, o.collective)
	if err != nil {
		return err
	}
	defer done()
	return a.actOnNodes(stop, o.identities, step, func(identity string) error {
		return underMutationLock(store, identity, func() error { return step.act(l, context.WithoutCancel(stop), identity) })
	})
}

// actOnNodes calls act for each node until it is told to stop, and shows what
// came of it.
func (a *app) actOnNodes(stop context.Context, names []string, step lifecycleStep, act func(identity string) error) error {
	var failures []error
	doc := lifecycleDocument{SchemaVersion: output.SchemaVersion, Nodes: []lifecycleResult{}}
	identities := eachOnce(names)
	for i, identity := range identities {
		if stop.Err() != nil {
			failures = append(failures, fmt.Errorf("%w: the nodes from %s on were not asked", interruption(stop), identity))
			doc.notAsked(step, identities[i:], interruption(stop))
			break
		}
		err := act(identity)
		doc.Nodes = append(doc.Nodes, step.result(identity, err))
		switch {
		case a.output == "json" && err != nil:
			failures = append(failures, silent{err})
		case err != nil:
			failures = append(failures, err)
		case a.output != "json":
			fmt.Fprintf(a.Out, "%s %s\n", identity, step.does)
		}
	}
	if a.output == "json" {
		failures = append(failures, a.writeJSON(doc))
	}
	return errors.Join(failures...)
}

// notAsked adds the nodes to which an interrupted command did not come.
func (d *lifecycleDocument) notAsked(step lifecycleStep, identities []string, why error) {
	for _, identity := range identities {
		d.Nodes = append(d.Nodes, step.result(identity, fmt.Errorf("%w: %w", errNothing, why)))
	}
}

// result is a node's row of the document.
func (s lifecycleStep) result(identity string, err error) lifecycleResult {
	r := lifecycleResult{Identity: identity, Outcome: s.does}
	if err == nil {
		return r
	}
	r.Outcome, r.Step, r.Error = "failed", s.name, output.Escape(withoutNothing(err))
	var failed nodeFailed
	switch {
	case errors.As(err, &failed):
		r.Error = output.Escape(failed.cause.Error())
	case errors.Is(err, errNothing):
		r.Outcome = "skipped"
	}
	r.Cause, r.Advice = output.Hint(err)
	return r
}

// lifecycleDocument is what `--output json` prints.
type lifecycleDocument struct {
	SchemaVersion int               `json:"schema_version"`
	Nodes         []lifecycleResult `json:"nodes"` // in the order they were named
}

// lifecycleResult is what became of one node.
type lifecycleResult struct {
	Identity string `json:"identity"`
	Outcome  string `json:"outcome"`         // restarts, shuts down, skipped or failed
	Step     string `json:"step,omitempty"`  // restart or shutdown, of a node that did neither
	Error    string `json:"error,omitempty"` // why
	Cause    string `json:"cause,omitempty"` // the id of a known cause, or "other"
	Advice   string `json:"advice,omitempty"`
}

// nodeFailed is a node that was asked and did not agree.
type nodeFailed struct {
	identity string
	cause    error
}

func (f nodeFailed) Error() string {
	text := f.identity + ": " + output.Escape(f.cause.Error())
	if _, advice := output.Hint(f.cause); advice != "" {
		text += "\n  " + advice
	}
	return text
}

func (f nodeFailed) Unwrap() []error { return []error{errNodesFailed, f.cause} }

// checkCollective refuses what cannot begin a NATS subject: the connection
// would be tried until its time is up, and the broker blamed.
func checkCollective(name string) error {
	if !discovery.ValidIdentity(name) {
		return usageError{fmt.Errorf("--collective: %q is not a collective: letters, digits, dots, dashes and underscores", name)}
	}
	return nil
}

// underMutationLock acts on a node that is not in mid-installation and that
// nobody else is at work on.
func underMutationLock(store *installstate.Store, identity string, act func() error) error {
	lock, err := store.AcquireMutationLock(identity)
	switch {
	case errors.Is(err, installstate.ErrUnusable):
		return err
	case errors.Is(err, installstate.ErrLockHeld), errors.Is(err, installstate.ErrInstallationInProgress):
		return fmt.Errorf("%w: %w", errNothing, err)
	case err != nil:
		return err
	}
	defer lock.Release()
	if err := act(); err != nil {
		return nodeFailed{identity, err}
	}
	return nil
}

// sayNotice shows what is to know of a node beside its outcome.
func (a *app) sayNotice(event any) {
	if notice, ok := event.(provision.Notice); ok {
		a.say("warning", notice.Node+": "+output.Escape(notice.Text))
	}
}

// lifecycleIn connects to the collective that nodes are in. Outside of
// provisioning the broker's provisioning login would put us into an account
// where they are not.
func (a *app) lifecycleIn(stop context.Context, cfg *config.Config, store *installstate.Store, collective string) (provision.Lifecycle, func(), error) {
	client, err := a.loadChoria(cfg)
	if err != nil {
		return provision.Lifecycle{}, nil, err
	}
	if collective != provisioningCollective {
		client.Collectives, client.MainCollective = []string{collective}, collective
		client.Choria.NatsUser, client.Choria.NatsPass = "", ""
	}
	redactor := output.NewRedactor(secretsOf(cfg))
	logger, closeLog, err := a.logger(cfg, a.Err, redactor)
	if err != nil {
		return provision.Lifecycle{}, nil, fmt.Errorf("%w: %w", errConfig, err)
	}
	conn, err := a.dial(stop, cfg, client, logger)
	if err != nil {
		return provision.Lifecycle{}, nil, errors.Join(err, closeLog())
	}
	conn.SetFence(fence(store, nil))
	l := provision.Lifecycle{
		RPC: redactingRPC{provision.ChoriaRPC{Conn: conn}, redactor}, Config: cfg, Stop: stop, Tell: redactor.Emit(a.sayNotice), May: mayWork(store, nil),
	}
	done := func() {
		conn.Close()
		_ = closeLog() // the command has said all it has to say
	}
	return l, done, nil
}
