package provision

import (
	"context"
	"time"

	"choria-provision/config"
	"choria-provision/provision/workers"
)

// Inventory is what a node says of itself; Err is why it did not.
type Inventory struct {
	Version    string
	Upgradable bool
	Err        error
}

// Survey asks nodes for their inventories and changes nothing.
type Survey struct {
	RPC    RPC
	Config *config.Config
	Tell   func(any) // takes the events of a run; NodeDone has no outcome when the node answered
}

// Inventories asks the nodes as a run makes its first calls: many at a time, and
// none waits for silent ones. The results are in the order of the identities; the
// end of ctx leaves ErrStopped for those that are not heard by then.
func (s Survey) Inventories(ctx context.Context, identities []string) []Inventory {
	s.Tell(RunStarted{Nodes: len(identities), Workers: s.Config.Workers})
	found := make([]Inventory, len(identities))
	for i := range found {
		found[i].Err = ErrStopped // until it is asked
	}
	workers.New(s.Config.Workers).Run(ctx, ctx, func(yield func(workers.Node) bool) {
		for i, identity := range identities {
			if ctx.Err() != nil || !yield(&surveyed{s.client(ctx, identity), &found[i]}) {
				return
			}
		}
	})
	return found
}

func (s Survey) client(ctx context.Context, identity string) *client {
	return &client{
		identity: identity, cfg: s.Config, stop: ctx, emit: s.Tell, allowed: func() error { return nil },
		rpc: readOnlyRPC{s.RPC, []string{inventory.name}},
	}
}

// surveyed is a node of a survey. Its inventory is its first call and its last.
type surveyed struct {
	*client
	found *Inventory
}

// FirstCall implements workers.Node.
func (n *surveyed) FirstCall(ctx context.Context) bool {
	started := time.Now()
	n.emit(NodeStarted{n.identity})
	facts, err := fetchFacts(ctx, n.client)
	result := Result{Node: n.identity, Step: inventoryStep, Started: started, Took: time.Since(started), Attempts: n.attempts, Version: facts.Version, Err: err}
	if err != nil {
		result.Outcome = Failed
	}
	*n.found = Inventory{Version: facts.Version, Upgradable: facts.Upgradable, Err: err}
	n.emit(NodeDone{result})
	return false
}

// Finish implements workers.Node; there is nothing more to do.
func (n *surveyed) Finish(context.Context) {}
