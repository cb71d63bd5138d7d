// Package fake knows how a fleet node answers, without being one: its nodes
// hold real keys and check what they are sent as go-choria's provision agent
// does, and each answer can be replaced by one that no real server could be
// brought to give. Tests and the lab's simulated fleet use it.
package fake

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"choria-provision/provision"

	wire "github.com/choria-io/go-choria/providers/agent/mcorpc/golang/provision"
)

// Call is one request a node got.
type Call struct {
	Node, Action string
	In           json.RawMessage
}

// Script replaces the answer to one action. number counts the requests for
// that action to that node from 1; ok gives the node's ordinary answer.
type Script func(ctx context.Context, number int, ok func() provision.Reply) ([]provision.Reply, error)

// Fleet is any number of nodes; it implements provision.RPC. A node exists from
// the first request to it.
type Fleet struct {
	Site *Site

	mu      sync.Mutex
	nodes   map[string]*node
	scripts map[string]Script
	counts  map[string]int
	calls   []Call
}

// NewFleet returns a fleet of the site, with nodes that all behave.
func NewFleet(site *Site) *Fleet {
	return &Fleet{Site: site, nodes: map[string]*node{}, scripts: map[string]Script{}, counts: map[string]int{}}
}

// On makes a node answer an action by a script; an empty node is every node.
func (f *Fleet) On(node, action string, s Script) *Fleet {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.scripts[node+" "+action] = s
	return f
}

// Request implements provision.RPC.
func (f *Fleet) Request(ctx context.Context, name, action string, in any) ([]provision.Reply, error) {
	data, err := json.Marshal(in)
	if err != nil {
		return nil, err
	}
	n, script, number := f.enter(name, action, data)
	ok := func() provision.Reply { return n.answer(action, data) }
	if script == nil {
		return []provision.Reply{ok()}, nil
	}
	return script(ctx, number, ok)
}

func (f *Fleet) enter(name, action string, data json.RawMessage) (*node, Script, int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, Call{name, action, data})
	n, known := f.nodes[name]
	if !known {
		n = &node{name: name, site: f.Site}
		f.nodes[name] = n
	}
	script, scripted := f.scripts[name+" "+action]
	if !scripted {
		script = f.scripts[" "+action]
	}
	f.counts[name+" "+action]++
	return n, script, f.counts[name+" "+action]
}

// Calls returns the requests so far, in order.
func (f *Fleet) Calls() []Call {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]Call(nil), f.calls...)
}

// Actions returns the names of the actions a node was asked for, in order.
func (f *Fleet) Actions(name string) (actions []string) {
	for _, call := range f.Calls() {
		if call.Node == name {
			actions = append(actions, call.Action)
		}
	}
	return actions
}

// Configured returns what a node was last configured with, and how often.
func (f *Fleet) Configured(name string) (last wire.ConfigureRequest, times int) {
	f.mu.Lock()
	n := f.nodes[name]
	f.mu.Unlock()
	if n == nil {
		return last, 0
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.configured, n.times
}

// Scripts that tests use often.

// Silent never answers.
func Silent(ctx context.Context, _ int, _ func() provision.Reply) ([]provision.Reply, error) {
	<-ctx.Done()
	return nil, provision.ErrNoReply
}

// Twice answers as two machines of one name do.
func Twice(_ context.Context, _ int, ok func() provision.Reply) ([]provision.Reply, error) {
	return []provision.Reply{ok(), ok()}, nil
}

// Refusing answers that it will not, with these words.
func Refusing(words string) Script {
	return func(context.Context, int, func() provision.Reply) ([]provision.Reply, error) {
		return []provision.Reply{{Message: words}}, nil
	}
}

// Saying answers OK with this data.
func Saying(data string) Script {
	return func(context.Context, int, func() provision.Reply) ([]provision.Reply, error) {
		return []provision.Reply{{OK: true, Data: json.RawMessage(data)}}, nil
	}
}

// FailingFirst lets the first n requests go unanswered.
func FailingFirst(n int) Script {
	return func(_ context.Context, number int, ok func() provision.Reply) ([]provision.Reply, error) {
		if number <= n {
			return nil, provision.ErrNoReply
		}
		return []provision.Reply{ok()}, nil
	}
}

// Slow answers after a while, or not when the caller gives up before.
func Slow(d time.Duration) Script {
	return func(ctx context.Context, _ int, ok func() provision.Reply) ([]provision.Reply, error) {
		select {
		case <-time.After(d):
			return []provision.Reply{ok()}, nil
		case <-ctx.Done():
			return nil, provision.ErrNoReply
		}
	}
}

func refuse(format string, args ...any) provision.Reply {
	return provision.Reply{Message: fmt.Sprintf(format, args...)}
}
