package commands

import (
	"context"

	"choria-provision/output"
	"choria-provision/provision"
)

// redactor returns a redactor of the secrets of the configuration in force. It
// reads their files anew: a message may come long after a secret was rotated.
func (a *app) redactor() output.Redactor {
	cfg := a.loaded.Load()
	if cfg == nil {
		return output.Redactor{}
	}
	return output.NewRedactor(secretsOf(cfg))
}

// redactingRPC redacts what a node says in words, for commands without observers:
// a refusal may repeat the token of its request. The data of a reply stays.
type redactingRPC struct {
	provision.RPC
	redactor output.Redactor
}

// Request implements provision.RPC.
func (r redactingRPC) Request(ctx context.Context, identity, action string, in any) ([]provision.Reply, error) {
	replies, err := r.RPC.Request(ctx, identity, action, in)
	for i := range replies {
		replies[i].Message = r.redactor.Replace(replies[i].Message)
	}
	return replies, r.redactor.Error(err)
}
