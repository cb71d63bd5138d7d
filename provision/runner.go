package provision

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync/atomic"
	"time"

	"choria-provision/config"
	"choria-provision/discovery"
	"choria-provision/provision/helper"
	"choria-provision/provision/installstate"
	"choria-provision/provision/workers"

	"golang.org/x/sync/semaphore"
)

// Runner works on many nodes. In a dry run no record is written and no lock
// taken.
type Runner struct {
	Config *config.Config
	RPC    RPC
	Helper helper.Helper
	Store  *installstate.Store
	Nonce  func() (string, error) // fresh, not to be guessed
	// Connected waits for a broker that is away; its error is ErrNetwork when it
	// does not come back in time. nil: there is none to wait for.
	Connected func(ctx context.Context, finishing bool) error
	May       func() error // nil, ErrPaused or ErrNotLeader: asked before every attempt
	Tell      func(any)    // takes the events; may be called from many goroutines

	Fingerprint string // of this site's installations; see Fingerprint

	// Term identifies the leadership; a node that was begun in another one is not
	// worked on any more. nil: there is only one.
	Term func() any

	DryRun   DryRun
	Force    bool                 // ignore holds
	Limit    int                  // 0: none
	Troubled func(id string) bool // its last attempt failed: it comes after the others

	// Announcements has a sequence start again when its node announced a start. nil:
	// no one listens for these.
	Announcements *Announcements

	// Hide is told the token each time it is about to be sent: it may have been
	// rotated since the run began. nil: no redactor needs it.
	Hide func(secrets ...string)

	broken atomic.Pointer[error] // why the state directory stopped taking records
}

// Summary is what came of a run.
type Summary struct {
	Results     []Result // of every node that was looked at, skipped ones included
	Left        int      // nodes beyond the limit
	Unhandled   int      // nodes that were not started because the run ended
	Interrupted bool     // a stop or the end of time kept nodes from being handled
	StateErr    error    // the state directory failed while the run was on, or the broker stayed away
}

// Run provisions what was seen in two stages: a node that has not answered its
// first call occupies no worker, from then to its outcome it occupies exactly
// one of Workers. When stop ends no new node starts and nodes at work stop at a
// safe step; when ctx ends they stop at once. One node's failure touches no other.
func (r *Runner) Run(ctx, stop context.Context, seen []discovery.Sighting) Summary {
	queue, skipped, left := r.admit(seen)
	r.Tell(RunStarted{Nodes: len(queue), Workers: r.Config.Workers, Left: left})
	for _, result := range skipped {
		r.Tell(NodeDone{result})
	}

	tasks := make([]*task, len(queue)) // nil: not started
	r.pool(len(queue)).Run(ctx, stop, r.start(ctx, stop, queue, tasks))
	return r.summarize(skipped, tasks, left)
}

// start gives the nodes of the queue one by one, as they may start, and keeps
// each in tasks.
func (r *Runner) start(ctx, stop context.Context, queue []discovery.Sighting, tasks []*task) iter.Seq[workers.Node] {
	helpers := helperBound(r.Config)
	return func(yield func(workers.Node) bool) {
		either, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(stop, cancel)()
		for i, sighting := range queue {
			if !r.awaitBroker(either) || r.ended(ctx, stop) {
				return
			}
			tasks[i] = r.task(stop, sighting, helpers)
			if !yield(tasks[i]) {
				return
			}
		}
	}
}

// helperBound bounds helpers where fewer may run than nodes are worked on.
func helperBound(c *config.Config) *semaphore.Weighted {
	if c.HelperWorkers <= 0 || c.HelperWorkers >= c.Workers {
		return nil
	}
	return semaphore.NewWeighted(int64(c.HelperWorkers))
}

// ended says that no new node may start.
func (r *Runner) ended(ctx, stop context.Context) bool {
	return stop.Err() != nil || ctx.Err() != nil || r.broken.Load() != nil || r.May() != nil
}

func (r *Runner) summarize(skipped []Result, tasks []*task, left int) Summary {
	sum := Summary{Results: skipped, Left: left}
	for _, t := range tasks {
		if t == nil {
			sum.Unhandled++
			continue
		}
		sum.Results = append(sum.Results, t.result)
		sum.Interrupted = sum.Interrupted || has(t.result.Err, cutsOff)
	}
	sum.Interrupted = sum.Interrupted || sum.Unhandled > 0
	if broken := r.broken.Load(); broken != nil {
		sum.StateErr = *broken
	}
	return sum
}

// task is one node on its way through both stages of a workers.Pool.
type task struct {
	r     *Runner
	n     *node      // nil once there is a result: a run's nodes must not add up in memory
	own   *ownership // nil before and after
	named bool       // by an operator: it was not seen to wait
	deaf  func()     // ends that announcements are heard
	done  func()     // called after the outcome; may be nil

	result Result
}

func (r *Runner) task(stop context.Context, s discovery.Sighting, helpers *semaphore.Weighted) *task {
	n := r.node(stop, s)
	n.helpers = helpers
	return &task{r: r, n: n, named: s.Source == discovery.ByName, deaf: func() {}}
}

// FirstCall implements workers.Node: it takes the node from its lock to its first
// answer.
func (t *task) FirstCall(ctx context.Context) bool {
	t.n.result.Started = time.Now()
	t.deaf = t.r.Announcements.follow(t.n.identity, &t.n.announced)
	t.r.Tell(NodeStarted{t.n.identity})
	own, err := t.r.acquire(t.n.identity)
	if err != nil {
		t.n.result.Step = recordStep
		t.end(ctx, proceed, err)
		return false
	}
	t.own, t.n.record = own, own
	outcome, err := t.n.provisionToAnswer(ctx)
	if outcome == proceed && err == nil {
		return true
	}
	if t.named && errors.Is(err, ErrGone) {
		err = own.explainGone(err)
	}
	t.end(ctx, outcome, err)
	return false
}

// Finish implements workers.Node: it takes the node from its first answer to its
// outcome. Once records cannot be written no node goes further than that.
func (t *task) Finish(ctx context.Context) {
	t.r.Tell(NodeAssigned{t.n.identity})
	if err := t.r.StateErr(); err != nil {
		t.n.result.Step = recordStep
		t.end(ctx, proceed, err)
		return
	}
	outcome, err := t.n.provisionOn(ctx)
	t.end(ctx, outcome, err)
}

// end makes the node's result, in its record too, and lets go of the node.
func (t *task) end(ctx context.Context, outcome Outcome, err error) {
	t.deaf()
	started := t.n.result.Started
	t.result = t.n.finish(outcome, err)
	t.r.noteBroken(err)
	if t.own != nil {
		t.settle(ctx, err)
		t.own.release()
	}
	t.result.Took = time.Since(started)
	t.n, t.own = nil, nil
	t.r.Tell(NodeDone{t.result})
	if t.done != nil {
		t.done()
	}
}

// settle writes what the outcome means for the record, and notes when records
// cannot be written any more.
func (t *task) settle(ctx context.Context, err error) {
	if errors.Is(err, ErrNetwork) {
		t.r.awaitBroker(ctx) // it may be there again
	}
	if !t.n.claimed {
		return
	}
	if err := t.own.complete(t.result.Outcome, t.n.holdFail); err != nil {
		t.r.broken.CompareAndSwap(nil, &err)
		if text := err.Error(); !slices.Contains(t.result.Notices, text) { // as before the restart
			t.result.Notices = append(t.result.Notices, text)
		}
	}
}

// noteBroken lets no new node start when err is a failure of the state.
func (r *Runner) noteBroken(err error) {
	if errors.Is(err, ErrState) {
		r.broken.CompareAndSwap(nil, &err)
	}
}

func (r *Runner) node(stop context.Context, s discovery.Sighting) *node {
	rpc := r.RPC
	if r.DryRun.On {
		rpc = readOnlyRPC{rpc, r.DryRun.allowed()}
	}
	return &node{
		client: client{
			identity: s.Identity, rpc: rpc, cfg: r.Config, connected: r.Connected,
			allowed: r.mayInTerm(), emit: r.Tell, hide: r.Hide, stop: stop,
		},
		seen: s.Seen, helper: r.Helper, nonce: r.Nonce, mode: r.DryRun.mode(),
		result: Result{Node: s.Identity},
	}
}

// finish turns the end of a sequence into the node's result.
func (n *node) finish(outcome Outcome, err error) Result {
	n.result.Outcome, n.result.Attempts = outcome, n.attempts
	if err != nil {
		n.result.Err = &Error{Node: n.identity, Step: n.result.Step, Err: err}
		n.result.Outcome = Failed
		if has(err, skips) {
			n.result.Outcome = Skipped
		}
	}
	return n.result
}

// awaitBroker holds a new node back while the broker is away. One that stays
// away ends the run.
func (r *Runner) awaitBroker(ctx context.Context) bool {
	if r.Connected == nil {
		return true
	}
	err := r.Connected(ctx, false)
	if errors.Is(err, ErrNetwork) {
		r.broken.CompareAndSwap(nil, &err)
	}
	return err == nil
}

// mayInTerm returns May for a node that begins now. One that waited for a reply
// while another instance led would else go on when we lead again, with what it
// knew before.
func (r *Runner) mayInTerm() func() error {
	if r.Term == nil {
		return r.May
	}
	began := r.Term()
	return func() error {
		if err := r.May(); err != nil {
			return err
		}
		if r.Term() != began {
			return fmt.Errorf("%w meanwhile", ErrNotLeader)
		}
		return nil
	}
}
