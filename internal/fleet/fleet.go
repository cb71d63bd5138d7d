// Package fleet knows how thousands of light nodes in provisioning mode share
// a process: they answer as go-choria's servers do over a real broker, check
// what they are sent, and report what they saw. What a node answers is in
// internal/fake; how it is provisioned is not known here.
package fleet

import (
	"fmt"
	"sync"
	"sync/atomic"

	"choria-provision/internal/fake"
)

// Options say what a fleet is made of. They travel as JSON to the process
// that plays it.
type Options struct {
	Nodes         int     `json:"nodes"`
	PerConnection int     `json:"per_connection"` // nodes that share a connection; 0: 500
	Faults        []Fault `json:"faults"`

	URL    string `json:"url"`    // of the broker
	TLS    bool   `json:"tls"`    // connect as a server of a secure network does
	JWT    string `json:"jwt"`    // the site's provisioning.jwt
	Token  string `json:"token"`  // shared with the provisioner
	Issuer string `json:"issuer"` // hex public key that server JWTs must lead to; empty: none are expected
	PKI    bool   `json:"pki"`    // certificates are expected
}

// perConnection is the default of Options.PerConnection.
const perConnection = 500

// Fleet is a running fleet. Its methods may be called from many goroutines.
type Fleet struct {
	options Options
	site    *fake.Site
	nodes   []*node
	links   []*link

	mu sync.Mutex // of the links' problems

	first, last atomic.Int64 // UnixNano of the first discovery and of the last restart; 0: none
}

// Start connects all nodes and returns when each waits to be provisioned.
func Start(o Options) (*Fleet, error) {
	if o.PerConnection < 1 {
		o.PerConnection = perConnection
	}
	dealt, err := deal(o.Nodes, o.Faults)
	if err != nil {
		return nil, err
	}
	f := &Fleet{options: o, site: &fake.Site{Token: o.Token, JWT: o.JWT, Version: "0.29.4"}}
	for i, kind := range dealt {
		f.nodes = append(f.nodes, &node{name: Name(i), kind: kind, counts: map[string]int{}})
	}
	for rest := f.nodes; len(rest) > 0; {
		count := min(o.PerConnection, len(rest))
		if err := f.open(rest[:count]); err != nil {
			f.Close()
			return nil, err
		}
		rest = rest[count:]
	}
	return f, nil
}

// Name is the identity of the node with a number, counted from 0.
func Name(number int) string { return fmt.Sprintf("sim%d.example.net", number+1) }

// Close disconnects all nodes. Those that were to come back do not.
func (f *Fleet) Close() {
	for _, l := range f.links {
		l.close()
	}
}
