package provision_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"choria-provision/config"
	"choria-provision/internal/fake"
	"choria-provision/provision"
	"choria-provision/provision/installstate"
)

// occupied counts the nodes that are called beyond their first call, or
// consulted about, at the same time.
func (b *bench) occupied(takes time.Duration, actions ...string) *most {
	var at most
	slow := fake.Slow(takes)
	for _, action := range actions {
		b.fleet.On("", action, func(ctx context.Context, n int, ok func() provision.Reply) ([]provision.Reply, error) {
			defer at.enter()()
			return slow(ctx, n, ok)
		})
	}
	b.Helper = helperFunc(func(ctx context.Context, in provision.HelperInput) (provision.Answer, error) {
		defer at.enter()()
		time.Sleep(takes)
		answer, err := obliging(ctx, in)
		answer.Upgrade = "9"
		return answer, err
	})
	return &at
}

// Whatever a node does after its first answer, and however long that takes, it
// does with a worker, which is lent to no other node.
func TestNoMoreNodesThanWorkersAreBeyondTheirFirstAnswer(t *testing.T) {
	t.Parallel()
	features := map[string]func(*config.Config){
		"plain":   func(*config.Config) {},
		"jwt":     func(c *config.Config) { c.Features.JWT = true },
		"issuer":  func(c *config.Config) { c.Features.JWT, c.Features.ED25519 = true, true },
		"pki":     func(c *config.Config) { c.Features.JWT, c.Features.PKI = true, true },
		"upgrade": func(c *config.Config) { c.Features.Upgrades, c.UpgradesRepository = true, "http://127.0.0.1/x" },
	}
	for name, feature := range features {
		for _, workers := range []int{1, 3} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					b := newBench(t, func(c *config.Config) { feature(c); c.Workers = workers; c.RPCTimeout.Duration = time.Minute })
					later := []string{gencsr, update, configure, restart}
					if b.Config.Features.JWT {
						later = append(later, gen25519, inventory)
					}
					at := b.occupied(30*time.Second, later...)
					b.run(t.Context(), named("n", 4*workers)...)
					if got := at.seen.Load(); got != int32(workers) {
						t.Errorf("got %d nodes beyond their first answer at once, want %d", got, workers)
					}
				})
			})
		}
	}
}

func TestALiveNodeIsServedBesideThirtySilentOnesByOneWorker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, func(c *config.Config) { c.Features.JWT, c.Workers = true, 1 })
		silent := named("silent", 30)
		for _, name := range silent {
			b.fleet.On(name, jwt, fake.Silent)
		}
		start := time.Now()
		sum := b.run(t.Context(), slices.Concat(silent, []string{node1})...)
		if got := resultOf(t, sum, node1); got.Outcome != provision.Provisioned {
			t.Errorf("got %s (%v), want provisioned", got.Outcome, got.Err)
		}
		if took := b.lastDone([]string{node1}, start); took > 5*time.Second {
			t.Errorf("the live node was done after %s, want it not to wait for a silent one's 22 s", took)
		}
		for _, name := range silent {
			if got := resultOf(t, sum, name); !errors.Is(got.Err, provision.ErrNoReply) || got.Attempts != 3 {
				t.Errorf("%s: got %v after %d attempts, want no reply after 3", name, got.Err, got.Attempts)
			}
		}
	})
}

func TestANodeThatFallsSilentLaterCostsOneWorkerItsTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, func(c *config.Config) { c.Workers = 1; c.RPCTimeout.Duration = 7 * time.Second })
		b.fleet.On("falls", configure, fake.Silent)
		b.fleet.On(node1, inventory, fake.Slow(soon)) // the other one has the worker by then
		start := time.Now()
		sum := b.run(t.Context(), "falls", node1)
		falls := resultOf(t, sum, "falls")
		if falls.Outcome != provision.Failed || falls.Attempts != 6 {
			t.Errorf("got %s (%v) after %d attempts, want failed after 6", falls.Outcome, falls.Err, falls.Attempts)
		}
		if got, want := b.lastDone([]string{node1}, start), b.lastDone([]string{"falls"}, start); got != want || got < 35*time.Second {
			t.Errorf("the other node was done after %s, want right after the worker was free, %s", got, want)
		}
	})
}

func TestANodeIsLockedBeforeItsFirstCall(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	b.fleet.On(node1, inventory, func(_ context.Context, _ int, ok func() provision.Reply) ([]provision.Reply, error) {
		if lock, err := b.Store.AcquireLock(node1); !errors.Is(err, installstate.ErrLockHeld) {
			lock.Release()
			t.Errorf("got %v during the first call, want the lock held", err)
		}
		return []provision.Reply{ok()}, nil
	})
	if got := resultOf(t, b.run(t.Context(), node1), node1); got.Outcome != provision.Provisioned {
		t.Errorf("got %s (%v), want provisioned", got.Outcome, got.Err)
	}
}

// assigned follows the events: how many nodes had a worker at once, and which
// ones ever had.
func (b *bench) assigned() (atOnce int, ever map[string]bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	busy := map[string]bool{}
	ever = map[string]bool{}
	for _, event := range b.events {
		switch e := event.(type) {
		case provision.NodeAssigned:
			busy[e.Node], ever[e.Node] = true, true
			atOnce = max(atOnce, len(busy))
		case provision.NodeDone:
			delete(busy, e.Node)
		}
	}
	return atOnce, ever
}

func TestOnlyNodesThatAnsweredAreToldToHaveAWorker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, func(c *config.Config) { c.Features.JWT, c.Workers = true, 2 })
		b.occupied(time.Second, configure, restart)
		b.fleet.On("silent", jwt, fake.Silent).On("refuses", jwt, fake.Refusing("no"))
		b.run(t.Context(), append(named("n", 20), "silent", "refuses")...)
		atOnce, ever := b.assigned()
		if atOnce != 2 || len(ever) != 20 || ever["silent"] || ever["refuses"] {
			t.Errorf("got %d workers at once and %d nodes that had one, want 2 and the 20 that answered", atOnce, len(ever))
		}
	})
}

// Watch has one pipeline for as long as it lives: nodes of later cycles find
// the workers that those of earlier ones occupy, and silent ones occupy none.
func TestWatchOccupiesWorkersAsARunDoes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, func(c *config.Config) { c.Features.JWT, c.Workers = true, 1 })
		silent := named("silent", 30)
		for _, name := range silent {
			b.fleet.On(name, jwt, fake.Silent)
		}
		at := b.occupied(15*time.Second, configure)
		w, end := watch(t, b)
		defer end()
		synctest.Wait()
		w.present.Store(&silent)
		w.trigger <- struct{}{}
		synctest.Wait()
		start := time.Now()
		for _, name := range named("live", 3) {
			w.event(name)
		}
		time.Sleep(90*time.Second + 5*time.Second) // 30 s each
		synctest.Wait()
		for _, name := range named("live", 3) {
			if _, times := w.fleet.Configured(name); times != 1 {
				t.Errorf("%s: configured %d times in %s, want once", name, times, time.Since(start))
			}
		}
		if atOnce, _ := b.assigned(); atOnce != 1 || at.seen.Load() != 1 {
			t.Errorf("got %d workers and %d nodes at work at once, want 1", atOnce, at.seen.Load())
		}
	})
}

// Once records cannot be written, nodes that wait for a worker are not begun:
// no helper is consulted for what cannot be kept.
func TestNoAnsweredNodeGoesOnWhenRecordsCannotBeWritten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, func(c *config.Config) { c.Workers = 1 })
		var asked atomic.Int32
		b.Helper = helperFunc(func(ctx context.Context, in provision.HelperInput) (provision.Answer, error) {
			asked.Add(1)
			time.Sleep(soon)
			return provision.Answer{}, fmt.Errorf("%w: the disk is full", provision.ErrState)
		})
		sum := b.run(t.Context(), named("n", 4)...)
		if asked.Load() != 1 || !errors.Is(sum.StateErr, provision.ErrState) {
			t.Errorf("got %d helpers and %v, want one and the state directory's error", asked.Load(), sum.StateErr)
		}
	})
}
