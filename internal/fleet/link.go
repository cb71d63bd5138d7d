package fleet

import (
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/choria-io/go-choria/backoff"
	"github.com/nats-io/nats.go"
)

// queued is how many requests to the nodes of one connection may wait.
const queued = 1 << 16

// link is one connection and the nodes that share it. One goroutine handles
// all their requests.
type link struct {
	fleet    *Fleet
	nc       *nats.Conn
	nodes    map[string]*node // by name
	order    []*node
	directed chan *nats.Msg
	done     chan struct{}
	problem  error // the last thing that could not be read or sent

	mu      sync.Mutex
	present int                // nodes that have not left
	all     *nats.Subscription // to broadcasts, while a node is present
}

// count adds to the nodes that are present. The broker must not think that
// a broadcast still has a subscriber when all nodes have left.
func (l *link) count(by int) (err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.present += by
	switch {
	case l.present > 0 && l.all == nil:
		l.all, err = l.nc.ChanSubscribe("provisioning.broadcast.agent.discovery", l.directed)
	case l.present == 0 && l.all != nil:
		err = l.all.Unsubscribe()
		l.all = nil
	}
	return err
}

// dial connects as a server in provisioning mode does: with the token of its
// provisioning.jwt over TLS that it does not verify, and without either where
// there is no TLS. It comes back as one does after the broker was away.
func (f *Fleet) dial() (*nats.Conn, error) {
	options := []nats.Option{
		nats.Name("simulated"), nats.Timeout(10 * time.Second), nats.IgnoreAuthErrorAbort(),
		nats.MaxReconnects(-1), nats.CustomReconnectDelay(backoff.TwentySec.Duration), nats.ReconnectBufSize(10 << 10),
	}
	if f.options.TLS {
		options = append(options, nats.Token(f.options.JWT),
			nats.Secure(&tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12})) //nolint:gosec // as the real ones
	}
	return nats.Connect(f.options.URL, options...)
}

// open connects nodes and returns when the broker knows them and has their
// startup events.
func (f *Fleet) open(nodes []*node) error {
	nc, err := f.dial()
	if err != nil {
		return fmt.Errorf("connecting simulated nodes: %w", err)
	}
	l := &link{fleet: f, nc: nc, nodes: map[string]*node{}, order: nodes,
		directed: make(chan *nats.Msg, queued), done: make(chan struct{})}
	f.links = append(f.links, l)
	go l.serve()
	for _, n := range nodes {
		n.link = l
		l.nodes[n.name] = n
	}
	for _, n := range nodes {
		n.join()
	}
	if err := nc.Flush(); err != nil {
		return fmt.Errorf("subscribing: %w", err)
	}
	return nil
}

func (l *link) serve() {
	defer close(l.done)
	for m := range l.directed {
		r, err := open(m.Data)
		switch {
		case errors.Is(err, errNotForUs):
		case err != nil:
			l.failed(fmt.Errorf("reading a request: %w", err))
		case r.agent == "discovery":
			l.broadcast(r)
		default:
			if n := l.nodes[strings.TrimPrefix(m.Subject, "provisioning.node.")]; n != nil {
				n.asked(r)
			}
		}
	}
}

func (l *link) broadcast(r request) {
	if !strings.Contains(string(r.body), "ping") {
		l.failed(errors.New("a discovery request that is no ping"))
		return
	}
	l.fleet.first.CompareAndSwap(0, time.Now().UnixNano())
	for _, n := range l.order {
		n.discovered(r)
	}
}

// say sends a node's reply.
func (l *link) say(r request, node string, body []byte) {
	data, err := seal(r, node, body)
	if err == nil {
		err = l.nc.Publish(r.replyTo, data)
	}
	if err != nil {
		l.failed(fmt.Errorf("replying: %w", err))
	}
}

func (l *link) failed(err error) {
	l.fleet.mu.Lock()
	defer l.fleet.mu.Unlock()
	l.problem = err
}

func (l *link) close() {
	l.nc.Close() // no message comes after this
	close(l.directed)
	<-l.done
}
