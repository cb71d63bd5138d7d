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
			if ctx.Err() != nil || !yield(&surveyed{s.node(ctx, identity), &found[i]}) {
				return
			}
		}
	})
	return found
}

func (s Survey) node(ctx context.Context, identity string) *node {
	return &node{
		id: identity, cfg: s.Config, stop: ctx, tell: s.Tell, may: func() error { return nil },
		rpc:    readOnlyRPC{s.RPC, []string{inventory.name}},
		result: Result{Node: identity, Step: inventoryStep},
	}
}

// surveyed is a node of a survey. Its inventory is its first call and its last.
type surveyed struct {
	n     *node
	found *Inventory
}

// FirstCall implements workers.Node.
func (t *surveyed) FirstCall(ctx context.Context) bool {
	n := t.n
	n.result.Started = time.Now()
	n.tell(NodeStarted{n.id})
	if _, n.result.Err = n.fetchInventory(ctx); n.result.Err != nil {
		n.result.Outcome = Failed
	}
	*t.found = Inventory{Version: n.facts.Version, Upgradable: n.facts.Upgradable, Err: n.result.Err}
	n.result.Took = time.Since(n.result.Started)
	n.tell(NodeDone{n.result})
	return false
}

// Finish implements workers.Node; there is nothing more to do.
func (t *surveyed) Finish(context.Context) {}
