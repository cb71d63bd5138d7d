package provision

import (
	"context"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/semaphore"
)

// maxWaiting is how many nodes may be begun beyond the ones that are worked on:
// each costs its state, a goroutine and an open lock file.
const maxWaiting = 1000

// Slots bounds the work on nodes, for one run or for as long as a watcher
// lives. A node that is worked on holds a slot. One that waits (it rests
// between attempts, or leaves a call unanswered for longer than nodes usually
// do) has given its slot to another, and takes one again, in its turn, before
// it goes on. How many nodes can wait so is bounded too.
type Slots struct {
	begun    *semaphore.Weighted
	work     *semaphore.Weighted
	helpers  *semaphore.Weighted
	patience patience
}

// NewSlots lets workers nodes be worked on at once, of which helpers, at most,
// have the helper at work; 0 or less means as many as workers.
func NewSlots(workers, helpers int) *Slots {
	if helpers <= 0 {
		helpers = workers
	}
	return &Slots{
		begun:   semaphore.NewWeighted(int64(workers) + roomForWaiting()),
		work:    semaphore.NewWeighted(int64(workers)),
		helpers: semaphore.NewWeighted(int64(helpers)),
	}
}

// roomForWaiting leaves most of the files this process may open to others than
// the locks of waiting nodes.
func roomForWaiting() int64 {
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		return maxWaiting
	}
	return int64(min(maxWaiting, uint64(files.Cur)/4)) //nolint:unconvert // signed on some systems
}

// Enter waits until one more node may be begun. The node's Slot is not held
// yet: Take comes next, Leave when the node is done. The error is ctx's.
func (s *Slots) Enter(ctx context.Context) (*Slot, error) {
	if err := s.begun.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	return &Slot{slots: s}, nil
}

// Slot is one node's claim to be worked on. A nil Slot bounds nothing: there is
// one node only. One goroutine takes and leaves it.
type Slot struct {
	slots *Slots

	mu   sync.Mutex
	held bool
}

// Take waits for the node's turn; when the slot is held it does nothing. Who
// waits longest comes first. The error is ctx's.
func (s *Slot) Take(ctx context.Context) error {
	if s.Held() {
		return nil
	}
	if err := s.slots.work.Acquire(ctx, 1); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = true
	return nil
}

// Held says that nothing needs to be waited for.
func (s *Slot) Held() bool {
	if s == nil {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held
}

// Give lets another node have the slot; when it is not held it does nothing.
func (s *Slot) Give() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.give()
}

func (s *Slot) give() {
	if s.held {
		s.held = false
		s.slots.work.Release(1)
	}
}

// Leave ends the node's claim, slot included. It is called once.
func (s *Slot) Leave() {
	if s == nil {
		return
	}
	s.Give()
	s.slots.begun.Release(1)
}

// helper waits for the node's turn with the helper and returns what ends it.
func (s *Slot) helper(ctx context.Context) (done func(), err error) {
	if s == nil {
		return func() {}, nil
	}
	if err := s.slots.helpers.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	return func() { s.slots.helpers.Release(1) }, nil
}

// during lends the slot out when a call takes longer than nodes usually need
// for this action. again says that the node has not been heard: another call
// to it is given no time at all to speak of. The function that is returned
// ends the watch over the call and is told whether the node answered.
func (s *Slot) during(action string, again bool) (done func(answered bool)) {
	if s == nil {
		return func(bool) {}
	}
	started, over := time.Now(), false
	var timer *time.Timer
	s.mu.Lock()
	defer s.mu.Unlock()
	timer = time.AfterFunc(leastPatience, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		waited := time.Since(started)
		if over || !s.held {
			return
		}
		// asked anew each time: what other nodes answer meanwhile shortens it
		if left := s.slots.patience.of(action) - waited; left > 0 && !again {
			timer.Reset(min(left, waited))
			return
		}
		s.give()
		s.slots.patience.ranOut(action)
	})
	return func(answered bool) {
		s.mu.Lock()
		defer s.mu.Unlock()
		over = true
		timer.Stop()
		if answered {
			s.slots.patience.learn(action, time.Since(started))
		}
	}
}
