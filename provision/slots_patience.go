package provision

import (
	"sync"
	"time"
)

// How long a call may go unanswered before its node gives its slot back. Too
// short is harmless, some more nodes are under way then; too long and the
// silent nodes cost the others.
const (
	leastPatience = 2 * time.Millisecond
	mostPatience  = time.Second

	// As long as nobody has answered anything: where it starts, and where it ends
	// after it was halved for each node that did not answer in that time.
	firstPatience   = 20 * time.Millisecond
	leastWhenUnsure = 5 * time.Millisecond
)

// patience knows how long the nodes of this fleet take to answer, each action
// for itself: making a key takes longer than telling one's name. Its zero value
// is ready for use.
type patience struct {
	mu      sync.Mutex
	actions map[string]*replyTimes
}

// replyTimes is a moving mean and a moving deviation, weighted as TCP does for
// its retransmissions (RFC 6298, section 2).
type replyTimes struct {
	mean, deviation time.Duration // zero: nobody has answered
	unsure          time.Duration // in force until somebody has
}

func (p *patience) times(action string) *replyTimes {
	t, known := p.actions[action]
	if !known {
		if p.actions == nil {
			p.actions = map[string]*replyTimes{}
		}
		t = &replyTimes{unsure: firstPatience}
		p.actions[action] = t
	}
	return t
}

// of is the patience with a call of this action.
func (p *patience) of(action string) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.times(action)
	switch {
	case t.mean > 0:
		return t.patience()
	case p.others() > 0:
		return min(2*p.others(), mostPatience)
	default:
		return t.unsure
	}
}

// others is the patience with the slowest action that is known: nodes that are
// far away are so for every action.
func (p *patience) others() (slowest time.Duration) {
	for _, t := range p.actions {
		if t.mean > 0 {
			slowest = max(slowest, t.patience())
		}
	}
	return slowest
}

func (t *replyTimes) patience() time.Duration {
	return min(max(t.mean+max(t.deviation, t.mean/4), leastPatience), mostPatience)
}

// learn takes in how long one node took.
func (p *patience) learn(action string, took time.Duration) {
	took = max(took, 1)
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.times(action)
	if t.mean == 0 {
		t.mean, t.deviation = took, took/2
		return
	}
	t.deviation += ((took - t.mean).Abs() - t.deviation) / 4
	t.mean += (took - t.mean) / 8
}

// ranOut takes in that a node did not answer in time.
func (p *patience) ranOut(action string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.times(action)
	t.unsure = max(t.unsure/2, leastWhenUnsure)
}
