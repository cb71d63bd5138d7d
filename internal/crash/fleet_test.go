package crash

import (
	"context"
	"fmt"
	"strings"

	"choria-provision/internal/fake"
	"choria-provision/provision"
)

const newRelease = "0.30.0"

// fleet are the nodes of one story. They outlive the runs.
type fleet struct {
	*fake.Fleet
	nodes map[string]*state
	log   []string // what was asked and how it ended
}

// state is where a node is in its life.
type state struct {
	restarted int // restarts it accepted
	lingers   int // runs for which it answers after that
	gone      bool
	version   string
	answered  []exchange // in order, accepted ones only
}

type exchange struct {
	action string
	call   called
	reply  provision.Reply
}

func newFleet(m *materials, enrollment string) *fleet {
	f := &fleet{Fleet: fake.NewFleet(m.site(enrollment)), nodes: map[string]*state{}}
	f.nodes[quick] = &state{}
	f.nodes[lingering] = &state{lingers: 1}
	return f
}

// act is what a node does when it is asked. One that left has no answer.
func (f *fleet) act(c called) reaction {
	n := f.nodes[c.Node]
	_, name := splitAction(c.Action)
	if n == nil || n.gone {
		f.note("%s: %s: gone", c.Node, name)
		return reaction{Gone: true}
	}
	replies, err := f.Request(context.Background(), c.Node, c.Action, c.In)
	if err != nil {
		f.note("%s: %s: %v", c.Node, name, err)
		return reaction{}
	}
	if n.version != "" && name == "inventory" {
		replies[0].Data = []byte(strings.ReplaceAll(string(replies[0].Data), f.Site.Version, n.version))
	}
	f.note("%s: %s: ok %v %s", c.Node, name, replies[0].OK, replies[0].Message)
	if !replies[0].OK {
		return reaction{Replies: replies}
	}
	n.answered = append(n.answered, exchange{name, c, replies[0]})
	switch name {
	case "restart":
		n.restarted++
		n.gone = n.lingers == 0
	case "release_update":
		n.version = newRelease
	}
	return reaction{Replies: replies}
}

func (f *fleet) note(format string, args ...any) {
	f.log = append(f.log, fmt.Sprintf(format, args...))
}

// later is called between runs.
func (f *fleet) later() {
	f.note("---")
	for _, n := range f.nodes {
		if n.restarted > 0 {
			n.gone = n.gone || n.lingers == 0
			n.lingers--
		}
	}
}

// waiting lists who answers a discovery.
func (f *fleet) waiting() (waiting []string) {
	for _, name := range names {
		if !f.nodes[name].gone {
			waiting = append(waiting, name)
		}
	}
	return waiting
}

// accepted counts what the nodes did.
func (f *fleet) accepted() (sum int) {
	for _, n := range f.nodes {
		sum += len(n.answered)
	}
	return sum
}

func (f *fleet) history() string { return strings.Join(f.log, "\n") }

func splitAction(action string) (agent, name string) {
	agent, name, _ = strings.Cut(action, "#")
	return agent, name
}
