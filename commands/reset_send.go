package commands

import (
	"context"

	"choria-provision/config"
	"choria-provision/provision/installstate"
)

// reprovisioner connects and returns what sends a node back to provisioning
// mode in collective (empty: its own), and what closes the connection after. A
// node that was asked is waited for, also when the stop comes meanwhile.
func (a *app) reprovisioner(stop context.Context, cfg *config.Config, store *installstate.Store, collective string) (sendReprovision, func(), error) {
	if collective == "" {
		collective = productionCollective(cfg)
	}
	l, done, err := a.lifecycleIn(stop, cfg, store, collective)
	if err != nil {
		return nil, nil, err
	}
	send := func(ctx context.Context, identity string) error {
		return l.Reprovision(context.WithoutCancel(ctx), identity)
	}
	return send, done, nil
}

// productionCollective is where go-choria's servers are unless their
// configuration says otherwise: it depends on their security provider.
func productionCollective(cfg *config.Config) string {
	if cfg.Features.ED25519 {
		return "choria"
	}
	return "mcollective"
}
