package provision

import (
	"context"

	"choria-provision/config"

	wire "github.com/choria-io/go-choria/providers/agent/mcorpc/golang/provision"
)

// Lifecycle asks a node's provision agent for what is no part of bringing it
// into service. The connection behind RPC is in the collective that the node is
// in; the caller holds the node's lock. A node that was asked and has left before
// it was heard counts as one that agreed; a Notice tells that it may have had
// other reasons.
type Lifecycle struct {
	RPC    RPC
	Config *config.Config
	May    func() error
	Tell   func(any)
	Stop   context.Context // ends when no further attempt may start
}

// Restart restarts the server. The agent refuses when the configuration it
// would start with leaves it in provisioning mode.
func (l Lifecycle) Restart(ctx context.Context, identity string) error {
	return lifecycle(ctx, l, identity, restart, func(token string) wire.RestartRequest {
		return wire.RestartRequest{Token: token, Splay: 1}
	})
}

// Shutdown ends the server, which systemd leaves down since it exits with 0.
func (l Lifecycle) Shutdown(ctx context.Context, identity string) error {
	return lifecycle(ctx, l, identity, shutdown, func(token string) wire.ShutdownRequest {
		return wire.ShutdownRequest{Token: token}
	})
}

// Reprovision sends a node that is in service back to provisioning mode.
func (l Lifecycle) Reprovision(ctx context.Context, identity string) error {
	return lifecycle(ctx, l, identity, reprovision, func(token string) wire.ReprovisionRequest {
		return wire.ReprovisionRequest{Token: token}
	})
}

func lifecycle[In any](ctx context.Context, l Lifecycle, identity string, a action[In, wire.Reply], request func(token string) In) error {
	c := &client{identity: identity, cfg: l.Config, rpc: l.RPC, allowed: l.May, emit: l.Tell, stop: l.Stop}
	token, err := c.token()
	if err != nil {
		return err
	}
	_, err = call(ctx, c, a, request(token))
	if c.leftUnheard(err) {
		l.Tell(Notice{Node: identity, Text: "it left without an answer: it does as it was asked, or was leaving already"})
		return nil
	}
	return err
}
