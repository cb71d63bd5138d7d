package provision

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"choria-provision/config"
	"choria-provision/discovery"
	"choria-provision/provision/installstate"

	"golang.org/x/sync/errgroup"
)

// Runner works on many nodes. In a dry run no record is written and no lock
// taken.
type Runner struct {
	Config *config.Config
	RPC    RPC
	Helper Helper
	Store  *installstate.Store
	Nonce  func() (string, error) // fresh, not to be guessed
	May    func() error           // nil, ErrPaused or ErrNotLeader: asked before every attempt
	Tell   func(any)              // takes the events; may be called from many goroutines
	Slots  *Slots                 // bounds the work, shared by who works at the same time; nil: Run makes them

	Fingerprint string // of this site's installations; see Fingerprint

	DryRun   DryRun
	Force    bool                 // ignore holds
	Limit    int                  // 0: none
	Troubled func(id string) bool // its last attempt failed: it comes after the others

	// Hide is told the token each time it is about to be sent: it may have been
	// rotated since the run began. nil: nobody needs to know.
	Hide func(secrets ...string)

	siteKey siteKey
	broken  atomic.Pointer[error] // why the state directory stopped taking records
}

// Summary is what came of a run.
type Summary struct {
	Results     []Result // of every node that was looked at, skipped ones included
	Left        int      // nodes beyond the limit
	Unhandled   int      // nodes that were not started because the run ended
	Interrupted bool     // a stop or the end of time kept nodes from being handled
	StateErr    error    // the state directory failed while the run was on
}

// Run provisions what was seen, Workers nodes at a time: those that wait for an
// answer or for another attempt do not count, see Slots. When stop ends no new
// node starts and nodes at work stop at a safe step; when ctx ends they stop at
// once. One node's failure touches no other.
func (r *Runner) Run(ctx, stop context.Context, seen []discovery.Sighting) Summary {
	queue, skipped, left := r.admit(seen)
	r.Tell(RunStarted{Nodes: len(queue), Workers: r.Config.Workers, Left: left})
	for _, result := range skipped {
		r.Tell(NodeDone{result})
	}

	results := make([]Result, len(queue))
	started := make([]bool, len(queue))
	slots := r.Slots
	if slots == nil {
		slots = NewSlots(r.Config.Workers, r.Config.HelperWorkers)
	}
	var group errgroup.Group
	for i, sighting := range queue {
		slot, ok := r.next(ctx, stop, slots)
		if !ok {
			break
		}
		started[i] = true
		group.Go(func() error {
			defer slot.Leave()
			results[i] = r.work(ctx, stop, sighting, slot)
			return nil
		})
	}
	_ = group.Wait() // the functions return nil: results carry the errors
	return r.summarize(skipped, results, started, left)
}

// next waits for the slot of one more node; there is none when no new node may
// start.
func (r *Runner) next(ctx, stop context.Context, slots *Slots) (*Slot, bool) {
	either, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(stop, cancel)()
	slot, err := slots.Enter(either)
	if err != nil {
		return nil, false
	}
	if err := slot.Take(either); err != nil || r.ended(ctx, stop) {
		slot.Leave()
		return nil, false
	}
	return slot, true
}

// ended says that no new node may start.
func (r *Runner) ended(ctx, stop context.Context) bool {
	return stop.Err() != nil || ctx.Err() != nil || r.broken.Load() != nil || r.May() != nil
}

func (r *Runner) summarize(skipped, results []Result, started []bool, left int) Summary {
	sum := Summary{Results: skipped, Left: left}
	for i, result := range results {
		if !started[i] {
			sum.Unhandled++
			continue
		}
		sum.Results = append(sum.Results, result)
		sum.Interrupted = sum.Interrupted || wasCutOff(result.Err)
	}
	sum.Interrupted = sum.Interrupted || sum.Unhandled > 0
	if broken := r.broken.Load(); broken != nil {
		sum.StateErr = *broken
	}
	return sum
}

// work takes one node from its lock to its outcome, with its slot already
// taken; a nil slot leaves the bound to the caller.
func (r *Runner) work(ctx, stop context.Context, s discovery.Sighting, slot *Slot) (result Result) {
	started := time.Now()
	r.Tell(NodeStarted{s.Identity})
	n := r.node(stop, s)
	n.slot = slot
	defer func() {
		result.Took = time.Since(started)
		r.Tell(NodeDone{result})
	}()

	own, err := r.take(s.Identity)
	if err != nil {
		n.result.Step = recordStep
		return n.finish(goOn, err)
	}
	defer own.release()
	n.own, n.restarting = own.begin, own.restarting
	outcome, err := n.walk(ctx)
	result = n.finish(outcome, err)
	if errors.Is(err, ErrState) {
		r.broken.CompareAndSwap(nil, &err)
	}
	if !n.claimed {
		return result
	}
	if err := own.settle(result.Outcome, n.holdFail); err != nil {
		r.broken.CompareAndSwap(nil, &err)
		result.Notices = append(result.Notices, err.Error())
	}
	return result
}

func (r *Runner) node(stop context.Context, s discovery.Sighting) *node {
	rpc := r.RPC
	if r.DryRun.On {
		rpc = readOnlyRPC{rpc, r.DryRun.allowed()}
	}
	return &node{
		id: s.Identity, seen: s.Seen, cfg: r.Config, rpc: rpc, helper: r.Helper, siteKey: &r.siteKey, nonce: r.Nonce,
		may: r.May, tell: r.Tell, stop: stop, dry: r.DryRun, hide: r.Hide,
		result: Result{Node: s.Identity, Started: time.Now()},
	}
}

// finish turns the end of a sequence into the node's result.
func (n *node) finish(outcome Outcome, err error) Result {
	n.result.Outcome = outcome
	if err != nil {
		n.result.Err = &Error{Node: n.id, Step: n.result.Step, Err: err}
		n.result.Outcome = Failed
		if isSkip(err) {
			n.result.Outcome = Skipped
		}
	}
	return n.result
}

// wasCutOff tells the ends that came to a node's sequence from outside, in the
// middle of it or before it began.
func wasCutOff(err error) bool {
	return errors.Is(err, ErrStopped) || errors.Is(err, ErrPaused) || errors.Is(err, ErrNotLeader)
}

// isSkip tells the causes that say nothing against the node: it is not this
// run's to work on.
func isSkip(err error) bool {
	for _, cause := range []error{ErrHeld, ErrStale, ErrPaused, ErrNotLeader, ErrStopped, ErrBusy, ErrLocked, ErrOwned, ErrResetting} {
		if errors.Is(err, cause) {
			return true
		}
	}
	return false
}
