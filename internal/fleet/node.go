package fleet

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"choria-provision/internal/fake"
	"choria-provision/provision"

	rpcclient "github.com/choria-io/go-choria/providers/agent/mcorpc/client"
	"github.com/nats-io/nats.go"
)

const (
	late     = time.Second     // by how much a slow node answers late
	away     = 3 * time.Second // until a node that comes back is there again: go-choria waits 2 s or more
	maxNoted = 5               // problems kept of one node
)

// node is one simulated node: the machine behind the name, and how it behaves.
type node struct {
	name string
	kind Kind
	link *link

	mu       sync.Mutex
	machines []*fake.Node // one, or two of a twin
	sub      *nats.Subscription
	gone     bool
	stopped  bool           // by a shutdown
	counts   map[string]int // requests by action
	lives    int            // ended by a restart
	before   int            // configurations in earlier lives
	problems []string
}

func (n *node) note(format string, args ...any) {
	if len(n.problems) < maxNoted {
		n.problems = append(n.problems, fmt.Sprintf(format, args...))
	}
}

// discovered sends the node's pong, unless it is gone.
func (n *node) discovered(r request) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.gone {
		return
	}
	for range n.machines {
		n.link.say(r, n.name, []byte("pong"))
	}
	if n.kind == Dead {
		n.leave()
	}
}

// asked handles a request to this node alone.
func (n *node) asked(r request) {
	var rpc rpcclient.RPCRequest
	if err := json.Unmarshal(r.body, &rpc); err != nil {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.note("a request that is none: %v", err)
		return
	}
	action := rpc.Agent + "#" + rpc.Action
	if n.kind == Slow {
		time.AfterFunc(late, func() { n.answer(r, action, rpc.Data) })
		return
	}
	n.answer(r, action, rpc.Data)
}

func (n *node) answer(r request, action string, in json.RawMessage) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.gone {
		return
	}
	n.counts[action]++
	if n.kind == Silent {
		return
	}
	for _, machine := range n.machines {
		reply := n.reply(machine, action, in)
		encoded, err := body(strings.SplitN(action, "#", 2)[1], reply)
		if err != nil {
			n.note("%s: %v", action, err)
			return
		}
		n.link.say(r, n.name, encoded)
		if !reply.OK && n.kind != Refuse {
			n.note("%s was refused: %s", action, reply.Message)
		}
		if reply.OK && n.kind.provisionable() {
			n.after(action, machine)
		}
	}
}

func (n *node) reply(machine *fake.Node, action string, in json.RawMessage) provision.Reply {
	switch {
	case n.kind == Refuse:
		return provision.Reply{Message: "this node refuses"}
	case n.kind == Garbage:
		return provision.Reply{OK: true, Data: json.RawMessage(`["\u001b[31m", {"jwt": 7}]`)}
	case action == "rpcutil#ping":
		return provision.Reply{OK: true, Data: fmt.Appendf(nil, `{"pong":%d}`, time.Now().Unix())}
	case action == "choria_provision#restart" && machine.State().Times == 0:
		return provision.Reply{Message: "there is no configuration, restart cannot continue"}
	}
	return machine.Answer(action, in)
}

// after does what a server's process does once it has said yes.
func (n *node) after(action string, machine *fake.Node) {
	switch action {
	case "choria_provision#configure":
		if err := n.link.fleet.checkSettings(n.name, machine.State()); err != nil {
			n.note("%v", err)
		}
	case "choria_provision#restart":
		n.lives++
		n.link.fleet.last.Store(time.Now().UnixNano())
		n.leave()
		if n.kind == Comeback {
			n.replace(machine.State())
		}
	case "choria_provision#shutdown":
		n.stopped = true
		n.leave()
	}
}

// replace forgets the machine that left and brings a new one after a while.
func (n *node) replace(s fake.State) {
	if err := n.link.fleet.checkCredentials(n.name, s); err != nil {
		n.note("%v", err)
	}
	n.before += s.Times
	n.machines = nil
	time.AfterFunc(away, n.join)
}

// leave ends the node's subscription: the broker then has no subscriber here.
func (n *node) leave() {
	n.gone = true
	if err := errors.Join(n.sub.Unsubscribe(), n.link.count(-1)); err != nil {
		n.note("leaving: %v", err)
	}
}

// join makes the node a new machine that waits to be provisioned and says so.
func (n *node) join() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.machines = []*fake.Node{fake.NewNode(n.link.fleet.site, n.name)}
	if n.kind == Twin {
		n.machines = append(n.machines, fake.NewNode(n.link.fleet.site, n.name))
	}
	sub, err := n.link.nc.ChanSubscribe("provisioning.node."+n.name, n.link.directed)
	if err != nil {
		n.note("joining: %v", err)
		return
	}
	n.sub, n.gone = sub, false
	if err := n.link.count(1); err != nil {
		n.note("joining: %v", err)
	}
	for range n.machines {
		if err := n.link.announce(n.name); err != nil {
			n.note("announcing its start: %v", err)
		}
	}
}
