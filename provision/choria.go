package provision

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"choria-provision/internal/network"

	"github.com/choria-io/go-choria/providers/agent/mcorpc"
	rpcclient "github.com/choria-io/go-choria/providers/agent/mcorpc/client"
)

// ChoriaRPC is RPC over a Choria network, on one shared connection.
type ChoriaRPC struct{ Conn *network.Conn }

// Request implements RPC. A node that is not connected is ErrGone at once,
// since the broker tells.
func (c ChoriaRPC) Request(ctx context.Context, node, action string, in any) ([]Reply, error) {
	agent, name, _ := strings.Cut(action, "#")
	data, err := json.Marshal(in)
	if err != nil {
		return nil, fmt.Errorf("encoding the request: %w", err)
	}
	body, err := json.Marshal(rpcclient.RPCRequest{Agent: agent, Action: name, Data: data})
	if err != nil {
		return nil, fmt.Errorf("encoding the request: %w", err)
	}

	received, err := c.Conn.Request(ctx, node, agent, body)
	switch {
	case errors.Is(err, network.ErrNobody):
		return nil, ErrGone
	case errors.Is(err, network.ErrTwins):
		return nil, ErrTwins
	case errors.Is(err, network.ErrFenced):
		return nil, fmt.Errorf("%w: %w", ErrNotLeader, err)
	case errors.Is(err, network.ErrTooLarge):
		return nil, fmt.Errorf("%w%s", ErrTooLarge, strings.TrimPrefix(err.Error(), network.ErrTooLarge.Error()))
	case errors.Is(err, network.ErrDisconnected):
		return nil, networkCause(err)
	case errors.Is(err, network.ErrNoReply):
		return nil, fmt.Errorf("%w%s", ErrNoReply, strings.TrimPrefix(err.Error(), network.ErrNoReply.Error()))
	case err != nil:
		return nil, err
	}
	replies := make([]Reply, len(received))
	for i, r := range received {
		replies[i] = Reply{OK: r.Statuscode == mcorpc.OK, Message: r.Statusmsg, Data: r.Data}
	}
	return replies, nil
}

// Connected waits for a broker that is away, for as long as patience after the
// connection broke; the step that completes a change waits longer. It is for
// [Runner.Connected].
func (c ChoriaRPC) Connected(patience time.Duration) func(ctx context.Context, finishing bool) error {
	return func(ctx context.Context, finishing bool) error {
		limit := patience
		if finishing {
			limit = max(limit, finishPatience)
		}
		return networkCause(c.Conn.Await(ctx, limit))
	}
}

// finishPatience is how long a node that has its configuration is owed its
// restart while the broker is away: half the time that it stays locked to us.
const finishPatience = time.Minute

// networkCause adds the cause an operator knows it by.
func networkCause(err error) error {
	if !errors.Is(err, network.ErrDisconnected) {
		return err
	}
	return fmt.Errorf("%w%s", ErrNetwork, strings.TrimPrefix(err.Error(), network.ErrDisconnected.Error()))
}

// readOnlyRPC lets pass only what is known to be harmless. A dry run talks
// through it, in case the table of steps is wrong.
type readOnlyRPC struct {
	RPC
	allowed []string
}

// Request implements RPC.
func (r readOnlyRPC) Request(ctx context.Context, node, action string, in any) ([]Reply, error) {
	for _, name := range r.allowed {
		if name == action {
			return r.RPC.Request(ctx, node, action, in)
		}
	}
	return nil, fmt.Errorf("a dry run does not call %s", action)
}
