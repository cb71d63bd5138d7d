package provision

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/json"
	"slices"
	"sync/atomic"
	"time"

	"choria-provision/provision/helper"

	wire "github.com/choria-io/go-choria/providers/agent/mcorpc/golang/provision"
	"golang.org/x/sync/semaphore"
)

// node is one node while it is worked on.
type node struct {
	client
	seen    time.Time
	helper  helper.Helper
	helpers *semaphore.Weighted    // bounds helpers apart from workers; nil: workers bound them
	nonce   func() (string, error) // fresh and not to be guessed
	mode    mode
	record  recorder

	next      int         // the row of the sequence that comes next
	claimed   bool        // its record says that it is under way
	repeats   int         // passes through the sequence that were given up
	announced atomic.Bool // the node announced a start meanwhile
	holdFail  bool        // a failure is followed by a hold
	result    Result
	found
}

// recorder is what a sequence writes into the record of its node.
type recorder interface {
	saveInstalling() error                     // the node is ours and under way
	saveRestartRequested(requested bool) error // the node may be restarting
}

// found is what the steps found. A sequence that starts again begins without it.
type found struct {
	proof     proof         // jwt, verify jwt
	key       nodeKey       // ed25519
	facts     facts         // inventory
	csr       csr           // csr, verify csr
	answer    helper.Answer // helper
	hasAnswer bool          // helper
	upgrading bool          // helper: the sequence ends at its upgrade step
	issued    struct {
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

// markInstalling makes the record say that the node is ours, once, and not in a pause.
func (n *node) markInstalling() error {
	if n.claimed {
		return nil
	}
	if err := n.checkAllowed(true); err != nil {
		return err
	}
	err := n.record.saveInstalling()
	n.claimed = err == nil
	return err
}

// warn adds a notice, once: steps of a sequence that started again find the same.
func (n *node) warn(text string) {
	if slices.Contains(n.result.Notices, text) {
		return
	}
	n.result.Notices = append(n.result.Notices, text)
	n.emit(Notice{Node: n.identity, Step: n.result.Step, Text: text})
}

func (n *node) warnAll(texts []string) {
	for _, text := range texts {
		n.warn(text)
	}
}

// helperInput builds what the helper is told from what the steps found; a field
// of node that is not named here never reaches it.
func (n *node) helperInput() helper.Input {
	in := helper.Input{Identity: n.identity, Inventory: string(n.facts.raw), JWT: n.proof.claims}
	if n.csr.request != nil {
		in.CSR = &helper.InputCSR{CSR: n.csr.reply.CSR, PublicKey: n.csr.reply.PublicKey, SSLDir: n.csr.reply.SSLDir}
	}
	if n.key.public != nil {
		in.ED25519 = &helper.InputED25519{PublicKey: n.key.reply.PublicKey, Directory: n.key.reply.Directory, Signature: n.key.reply.Signature}
	}
	return in
}
