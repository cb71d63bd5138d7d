package commands

import (
	"context"
	"errors"

	"choria-provision/config"
)

// reprovisioner connects and returns what sends a node back to provisioning
// mode in collective (empty: its own), and what closes the connection after.
func (a *app) reprovisioner(stop context.Context, cfg *config.Config, collective string) (sendReprovision, func(), error) {
	return nil, nil, errors.New("this build cannot send nodes back to provisioning mode; nothing was changed: reset without --reprovision, then reprovision the nodes with the choria command")
}
