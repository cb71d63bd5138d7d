package crash

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync"
	"time"

	"choria-provision/config"
	"choria-provision/discovery"
	"choria-provision/provision"
	"choria-provision/provision/installstate"
)

// childMarker makes the test binary play a run of the product; its value is an
// order.
const childMarker = "CRASH_TEST_ORDER"

// order is everything a run is told.
type order struct {
	Dir        string // the state directory
	Records    bucket // where the records are instead
	Host       string // which works on them then
	Enrollment string
	Token      string
	Signer     string // hex, of provisioning.jwt
	Seed       string // file, signs server JWTs
	CA         credentials
	Node       credentials // what a helper that makes keys itself hands out
	Seen       []string
	Force      bool
}

// message is what a run tells the parent: where it is, with a call also what
// it asks of a node. The parent answers, or kills.
type message struct {
	Point string
	Call  *called `json:",omitempty"`
}

type called struct {
	Node, Action string
	In           json.RawMessage
}

type reaction struct {
	Replies []provision.Reply
	Gone    bool
}

// line is the child's end: one message at a time, each answered.
type line struct {
	mu  sync.Mutex
	in  *json.Decoder
	out *json.Encoder
}

func (l *line) say(m message) (r reaction, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.out.Encode(m); err != nil {
		return r, err
	}
	return r, l.in.Decode(&r)
}

// Request implements provision.RPC.
func (l *line) Request(_ context.Context, node, action string, in any) ([]provision.Reply, error) {
	data, err := json.Marshal(in)
	if err != nil {
		return nil, err
	}
	_, name := splitAction(action)
	l.at("%s: %s about to be sent", node, name)
	r, err := l.say(message{Point: fmt.Sprintf("%s: %s answered", node, name), Call: &called{node, action, data}})
	switch {
	case err != nil:
		return nil, err
	case r.Gone:
		return nil, provision.ErrGone
	default:
		return r.Replies, nil
	}
}

// at waits at a point; a parent that is gone ends us.
func (l *line) at(format string, args ...any) {
	if _, err := l.say(message{Point: fmt.Sprintf(format, args...)}); err != nil {
		os.Exit(1)
	}
}

// observe makes points of what the run tells. A step without a call ends where
// the next one begins.
func (l *line) observe(event any) {
	switch e := event.(type) {
	case provision.NodeStarted:
		l.at("%s: node started", e.Node)
	case provision.StepStarted:
		l.at("%s: %s started", e.Node, e.Step)
	case provision.StepDone:
		if slices.Contains(calling, e.Step) {
			l.at("%s: %s done", e.Node, e.Step)
		}
	case provision.NodeDone:
		l.at("%s: node done", e.Node)
		if e.Outcome == provision.Failed {
			fmt.Fprintf(os.Stderr, "%v\n", e.Err)
		}
	}
}

// calling are the steps that ask the node.
var calling = []string{"jwt", "ed25519", "inventory", "csr", "upgrade", "configure", "restart"}

// runChild is one run of the product, in the order in which `once` does things.
func runChild(text string, in io.Reader, out io.Writer) error {
	var o order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	l := &line{in: json.NewDecoder(bufio.NewReader(in)), out: json.NewEncoder(out)}
	store, err := o.Records.open(o.Dir, o.Host)
	if err != nil {
		return err
	}
	defer store.Close()
	if err := store.CheckWritable(); err != nil {
		return err
	}
	lock, err := store.AcquireRunLock()
	if err != nil {
		return err
	}
	defer lock.Release()
	number := 0
	r := provision.Runner{
		Config: o.config(), RPC: l, Helper: o, Store: store, Tell: l.observe, Force: o.Force,
		Nonce:       func() (string, error) { number++; return fmt.Sprintf("nonce %d", number), nil },
		May:         store.CheckClaims,
		Fingerprint: fingerprint(o.Enrollment),
	}
	ctx := context.Background()
	sum := r.Run(ctx, ctx, o.sightings())
	l.at("run done")
	r.Settle(ctx, ctx)
	l.at("settled")
	return errors.Join(sum.StateErr, r.StateErr())
}

func fingerprint(enrollment string) string { return installstate.Fingerprint([]byte(enrollment)) }

func (o order) sightings() (seen []discovery.Sighting) {
	for _, name := range o.Seen {
		seen = append(seen, discovery.Sighting{Identity: name, Seen: time.Now(), Source: discovery.ByBroadcast})
	}
	return seen
}

func (o order) config() *config.Config {
	c := config.Default()
	c.Token, c.JWTVerifyCert = config.NewSecret(o.Token), o.Signer
	c.Workers, c.Insecure = 1, true // one after the other: each point is one point
	c.JWTSigningKey = o.Seed
	enroll(o.Enrollment, c)
	return c
}

// command is the child process for this order.
func (o order) command() (*exec.Cmd, error) {
	text, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(os.Args[0])
	// the race detector would have each process sleep for a second at its end
	cmd.Env = append(os.Environ(), childMarker+"="+string(text), "GORACE=atexit_sleep_ms=0")
	return cmd, nil
}
