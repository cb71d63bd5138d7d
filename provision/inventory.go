package provision

import (
	"context"

	"choria-provision/config"

	"golang.org/x/sync/errgroup"
)

// Inventory is what a node says of itself; Err is why it did not.
type Inventory struct {
	Version    string
	Upgradable bool
	Err        error
}

// Inventories asks the nodes, Workers at a time, and changes nothing. The
// results are in the order of the names.
func Inventories(ctx, stop context.Context, rpc RPC, cfg *config.Config, names []string) []Inventory {
	found := make([]Inventory, len(names))
	var group errgroup.Group
	group.SetLimit(cfg.Workers)
	for i, name := range names {
		group.Go(func() error {
			n := &node{
				id: name, cfg: cfg, stop: stop, tell: func(any) {}, may: func() error { return nil },
				rpc: readOnlyRPC{rpc, []string{inventory.name}},
			}
			if _, err := n.takeInventory(ctx); err != nil {
				found[i].Err = err
				return nil
			}
			found[i] = Inventory{Version: n.facts.Version, Upgradable: n.facts.Upgradable}
			return nil
		})
	}
	_ = group.Wait() // the functions return nil
	return found
}
