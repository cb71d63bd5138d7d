package provision

import (
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"choria-provision/config"
	"choria-provision/provision/helper"

	wire "github.com/choria-io/go-choria/providers/agent/mcorpc/golang/provision"
	"golang.org/x/sync/semaphore"
)

// node is what is known of one node while it is worked on. Each field below the
// line is filled by the one step named beside it.
type node struct {
	id     string
	seen   time.Time
	cfg    *config.Config
	rpc    RPC
	helper helper.Helper
	nonce  func() (string, error) // fresh and not to be guessed
	// connected waits for a broker that is away; nil: there is none to wait for.
	connected func(ctx context.Context, finishing bool) error

	may  func() error // nil while provisioning is neither paused nor led elsewhere
	tell func(any)
	hide func(secrets ...string) // nil: nothing that is shown repeats the node
	stop context.Context         // ends when no new step may start
	dry  DryRun
	own  func() error // makes the record say that the node is ours and under way

	helpers *semaphore.Weighted // bounds helpers apart from workers; nil: workers bound them

	restarting func(asked bool) error // makes the record say whether it may be restarting

	next      int  // the row of the sequence that comes next
	answered  bool // a call was answered well
	claimed   bool // own was done
	finishing bool // the step under way completes a change
	asked     bool // dry run: the helper has answered
	replyLost bool // an attempt ended without the node being heard
	// configuring: it gets its configuration, and has it if a reply was lost
	configuring bool
	away        bool        // likewise, or it was not connected, in the step under way
	repeats     int         // passes through the sequence that were given up
	holdFail    bool        // a failure is followed by a hold
	upgrading   bool        // the sequence ends at its upgrade step
	announced   atomic.Bool // the node announced a start meanwhile
	result      Result

	proof  proof         // jwt, verify jwt
	key    nodeKey       // ed25519
	facts  facts         // inventory
	csr    csr           // csr, verify csr
	answer helper.Answer // helper
	issued struct {
		serverJWT string // server jwt
		key, ecdh string // encrypt key
	}
}

type proof struct {
	reply  wire.JWTReply
	claims json.RawMessage // what the helper is told of the verified ones
}

type nodeKey struct {
	reply  wire.ED25519Reply
	public ed25519.PublicKey
}

type csr struct {
	asked   bool // the node makes a key for each request
	reply   wire.CSRReply
	request *x509.CertificateRequest
}

// facts is the inventory as it came and the parts we decide by.
type facts struct {
	raw        json.RawMessage
	Version    string `json:"version"`
	Upgradable bool   `json:"upgradable"`
}

// checkAllowed is asked before whatever others notice: every attempt, the helper, the
// record that begins, and the note of a restart. stoppable says that a stop ends
// the work here.
func (n *node) checkAllowed(stoppable bool) error {
	if err := n.may(); err != nil {
		return err
	}
	if stoppable && n.stopped() {
		return ErrStopped
	}
	return nil
}

// stopped says that no step may start; a change that is being completed goes on.
func (n *node) stopped() bool { return !n.finishing && n.stop.Err() != nil }

// claim makes the record say that the node is ours, once, and not in a pause.
func (n *node) claim() error {
	if n.claimed {
		return nil
	}
	if err := n.checkAllowed(true); err != nil {
		return err
	}
	err := n.own()
	n.claimed = err == nil
	return err
}

// ended names why a context is over: time or a stop, never "context canceled".
func (n *node) ended(ctx context.Context) error {
	if errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		return fmt.Errorf("%w: its time was up", ErrStopped)
	}
	return ErrStopped
}

// warn adds a notice, once: steps of a sequence that started again find the same.
func (n *node) warn(text string) {
	if slices.Contains(n.result.Notices, text) {
		return
	}
	n.result.Notices = append(n.result.Notices, text)
	n.tell(Notice{Node: n.id, Step: n.result.Step, Text: text})
}

func (n *node) warnAll(texts []string) {
	for _, text := range texts {
		n.warn(text)
	}
}

func (n *node) token() (string, error) {
	token, err := n.cfg.Token.Reveal()
	if err != nil {
		return "", fmt.Errorf("token: %w", err)
	}
	if n.hide != nil {
		n.hide(token)
	}
	return token, nil
}

// helperInput builds what the helper is told from what the steps found; a field
// of node that is not named here never reaches it.
func (n *node) helperInput() helper.Input {
	in := helper.Input{Identity: n.id, Inventory: string(n.facts.raw), JWT: n.proof.claims}
	if n.csr.request != nil {
		in.CSR = &helper.InputCSR{CSR: n.csr.reply.CSR, PublicKey: n.csr.reply.PublicKey, SSLDir: n.csr.reply.SSLDir}
	}
	if n.key.public != nil {
		in.ED25519 = &helper.InputED25519{PublicKey: n.key.reply.PublicKey, Directory: n.key.reply.Directory, Signature: n.key.reply.Signature}
	}
	return in
}
