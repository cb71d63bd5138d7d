package commands

import (
	"context"

	"choria-provision/output"
	"choria-provision/provision"
)

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
