// Package workers knows how many nodes are worked on at once: a node that has
// not answered its first call occupies no worker, from then to its outcome it
// occupies exactly one. It does not know what is said to a node or what an
// outcome is.
package workers

import (
	"context"
	"iter"
	"sync"

	"golang.org/x/sync/errgroup"
)

// Node is the work on one node, in two stages. A Pool calls FirstCall once and,
// if that returned true, Finish once.
type Node interface {
	// FirstCall makes the first call, with all its attempts and the backoff
	// between them, and returns whether the node answered and is to be finished.
	// On false the node has its outcome.
	FirstCall(ctx context.Context) bool
	// Finish does all the rest, up to the outcome. A worker is occupied meanwhile.
	Finish(ctx context.Context)
}

// Pool works on nodes in two stages. Stage one keeps first calls to many nodes
// in flight; stage two is an errgroup limited to the number of workers.
type Pool struct {
	workers int
	window  *window
}

// New returns a pool of the given number of workers, at least one. It serves
// one Run.
func New(workers int) *Pool {
	workers = max(workers, 1)
	return &Pool{workers: workers, window: newWindow(workers)}
}

// Share makes the pool leave nodes to other processes that take from the same
// ones: the fewer of the given number it has not begun, the fewer it takes
// before a worker is free for them. It is called before Run.
func (p *Pool) Share(nodes int) { p.window.shared, p.window.left = true, nodes }

// Run works on nodes in their order until the sequence ends, or until stop or
// ctx ends: then no further node is taken from it. It returns when every node
// that was taken has its outcome. A node is taken only when its first call may
// go out at once; the sequence may block until there is one.
func (p *Pool) Run(ctx, stop context.Context, nodes iter.Seq[Node]) {
	answered := p.firstCalls(ctx, stop, nodes)
	var group errgroup.Group // zero value: one failure cancels no other
	group.SetLimit(p.workers)
	for c := range answered {
		group.Go(func() error {
			p.window.assigned()
			defer p.window.finished()
			c.node.Finish(ctx)
			return nil
		})
	}
	_ = group.Wait() // the functions return nil: outcomes are the nodes' own
}

// call is a node with its first call in flight or answered.
type call struct {
	node Node
	*flight
}

// firstCalls runs stage one. The channel gives the nodes that answered, in the
// order of their answers, and is closed after the last.
func (p *Pool) firstCalls(ctx, stop context.Context, nodes iter.Seq[Node]) <-chan call {
	answered := make(chan call)
	go func() {
		defer close(answered)
		var calls sync.WaitGroup
		defer calls.Wait()
		for node := range nodes {
			c := call{node, p.window.sent()}
			calls.Go(func() {
				heard := c.node.FirstCall(ctx)
				p.window.ended(c.flight, heard)
				if heard {
					answered <- c
				}
			})
			if !p.window.await(ctx, stop) {
				return
			}
		}
	}()
	return answered
}
