package fake

import (
	"crypto"
	"crypto/ed25519"
	"encoding/json"

	"choria-provision/provision"

	wire "github.com/choria-io/go-choria/providers/agent/mcorpc/golang/provision"
)

// Node is one node without a Fleet around it, for who keeps many and records
// less. Its methods may be called from many goroutines.
type Node struct{ n node }

// NewNode returns a node of the site, new from the box.
func NewNode(site *Site, name string) *Node {
	return &Node{node{name: name, site: site}}
}

// Answer is the node's ordinary answer to an action, AGENT#ACTION.
func (n *Node) Answer(action string, in json.RawMessage) provision.Reply {
	return n.n.answer(action, in)
}

// State is what became of a node.
type State struct {
	Configured wire.ConfigureRequest // the last one it accepted
	Times      int                   // it was configured
	Left       bool                  // it took a restart
	Public     ed25519.PublicKey     // of gen25519; nil before
}

// State returns what became of the node so far.
func (n *Node) State() State {
	n.n.mu.Lock()
	defer n.n.mu.Unlock()
	s := State{Configured: n.n.configured, Times: n.n.times, Left: n.n.left}
	if n.n.seed != nil {
		s.Public = n.n.seed.Public().(ed25519.PublicKey)
	}
	return s
}

// CSRKey is the public key that every node's certificate request is for.
func CSRKey() (crypto.PublicKey, error) {
	key, err := nodeKey()
	if err != nil {
		return nil, err
	}
	return key.Public(), nil
}
