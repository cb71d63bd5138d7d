package commands

import (
	"context"
	"errors"
	"fmt"

	"choria-provision/config"
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

func (a *app) lifecycle(name, help, does string, act lifecycleAction) {
	var o lifecycleOptions
	c := a.cli.Command(name, help)
	c.Arg("identity", "Names of the nodes").Required().StringsVar(&o.identities)
	collectiveFlag(c, &o.collective)
	a.chooses(c, func(stop context.Context) error { return a.runLifecycle(stop, o, does, act) })
}

// provisioningCollective is where nodes wait.
const provisioningCollective = "provisioning"

func collectiveFlag(c *fisk.CmdClause, collective *string) {
	c.Flag("collective", "Collective the nodes are in").Default(provisioningCollective).PlaceHolder("NAME").StringVar(collective)
}

// runLifecycle acts on each node under its mutation lock and goes on with the
// others when one cannot be acted on.
func (a *app) runLifecycle(stop context.Context, o lifecycleOptions, does string, act lifecycleAction) error {
	if err := checkIdentities(o.identities); err != nil {
		return err
	}
	cfg, err := a.load()
	if err != nil {
		return err
	}
	if err := checkPause(cfg.StateDir); err != nil {
		return err
	}
	l, done, err := a.lifecycleIn(stop, cfg, o.collective)
	if err != nil {
		return err
	}
	defer done()

	var failures []error
	store := installstate.NewStore(cfg.StateDir)
	for _, identity := range o.identities {
		err := underMutationLock(store, identity, func() error { return act(l, context.WithoutCancel(stop), identity) })
		if err != nil {
			failures = append(failures, err)
			continue
		}
		fmt.Fprintf(a.Out, "%s %s\n", identity, does)
	}
	return errors.Join(failures...)
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
		_, advice := output.Advise(err)
		return fmt.Errorf("%w: %s; %s", errNodesFailed, output.Escape(err.Error()), advice)
	}
	return nil
}

// lifecycleIn connects to the collective that nodes are in. Outside of
// provisioning the broker's provisioning login would put us into an account
// where they are not.
func (a *app) lifecycleIn(stop context.Context, cfg *config.Config, collective string) (provision.Lifecycle, func(), error) {
	client, err := a.loadChoria(cfg)
	if err != nil {
		return provision.Lifecycle{}, nil, err
	}
	if collective != provisioningCollective {
		client.Collectives, client.MainCollective = []string{collective}, collective
		client.Choria.NatsUser, client.Choria.NatsPass = "", ""
	}
	logger, closeLog, err := a.logger(cfg, a.Err)
	if err != nil {
		return provision.Lifecycle{}, nil, fmt.Errorf("%w: %w", errConfig, err)
	}
	conn, err := a.dial(stop, cfg, client, logger)
	if err != nil {
		return provision.Lifecycle{}, nil, errors.Join(err, closeLog())
	}
	l := provision.Lifecycle{
		RPC: provision.ChoriaRPC{Conn: conn}, Config: cfg, Stop: stop,
		May: mayWork(cfg.StateDir, nil), Tell: func(any) {},
	}
	done := func() {
		conn.Close()
		_ = closeLog() // the command has said all it has to say
	}
	return l, done, nil
}
