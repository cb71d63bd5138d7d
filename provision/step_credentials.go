package provision

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"choria-provision/provision/helper"
	"choria-provision/provision/trust"

	wire "github.com/choria-io/go-choria/providers/agent/mcorpc/golang/provision"
)

func (n *node) refuseStale(context.Context) (Outcome, error) {
	limit := 2 * n.cfg.Interval.Duration
	if age := time.Since(n.seen); age > limit {
		return proceed, fmt.Errorf("%w: %s ago, the limit is twice the interval: %s", ErrStale, age.Round(time.Second), limit)
	}
	return proceed, nil
}

func (n *node) fetchJWT(ctx context.Context) (Outcome, error) {
	token, err := n.token()
	if err != nil {
		return proceed, err
	}
	n.proof.reply, err = call(ctx, &n.client, jwt, wire.JWTRequest{Token: token})
	return proceed, err
}

func (n *node) verifyJWT(context.Context) (outcome Outcome, err error) {
	if _, err := trust.VerifyJWT(n.proof.reply.JWT, n.cfg.JWTVerifyCert); err != nil {
		return proceed, err
	}
	n.proof.claims, err = helper.SelectClaims(n.proof.reply.JWT)
	return proceed, err
}

// requestKey has the node make a key pair and sign a nonce of ours: without that
// it could present another machine's public key.
func (n *node) requestKey(ctx context.Context) (Outcome, error) {
	token, err := n.token()
	if err != nil {
		return proceed, err
	}
	nonce, err := n.nonce()
	if err != nil {
		return proceed, fmt.Errorf("making a nonce: %w", err)
	}
	reply, err := call(ctx, &n.client, gen25519, wire.ED25519Request{Token: token, Nonce: nonce})
	if err != nil {
		return proceed, err
	}
	public, err := trust.VerifyKeyProof(reply, nonce)
	n.key = nodeKey{reply, public}
	return proceed, err
}

func (n *node) fetchInventory(ctx context.Context) (outcome Outcome, err error) {
	n.facts, err = fetchFacts(ctx, &n.client)
	n.result.Version = n.facts.Version
	return proceed, err
}

func fetchFacts(ctx context.Context, c *client) (facts, error) {
	reply, err := call(ctx, c, inventory, inventoryRequest{})
	if err != nil {
		return facts{}, err
	}
	found := facts{raw: reply}
	if err := json.Unmarshal(reply, &found); err != nil {
		return facts{}, fmt.Errorf("%w: the inventory: %w", ErrNonsense, err)
	}
	return found, nil
}

func (n *node) requestCSR(ctx context.Context) (Outcome, error) {
	token, err := n.token()
	if err != nil {
		return proceed, err
	}
	n.csr.asked = true
	n.csr.reply, err = call(ctx, &n.client, gencsr, wire.CSRRequest{Token: token, CN: n.identity})
	return proceed, err
}

func (n *node) verifyCSR(context.Context) (outcome Outcome, err error) {
	n.csr.request, err = trust.VerifyCSR(n.csr.reply, trust.CSRRules{Identity: n.identity, Deny: n.cfg.CertDenyList, Allow: n.cfg.CertAllowList})
	return proceed, err
}

func (n *node) issueServerJWT(context.Context) (Outcome, error) {
	if !n.configures() {
		return proceed, nil
	}
	token, warnings, err := trust.IssueServerJWT(trust.ServerJWTRequest{
		Identity: n.identity, PublicKey: n.key.public, Config: n.cfg, Settings: n.answer, Claims: n.answer.ServerClaims,
	})
	n.warnAll(warnings)
	n.issued.serverJWT = token
	return proceed, err
}

func (n *node) encryptKey(context.Context) (outcome Outcome, err error) {
	if !n.sendsKey() {
		return proceed, nil
	}
	n.issued.key, n.issued.ecdh, err = trust.EncryptKey(n.answer.Key, n.proof.reply.ECDHPublic)
	return proceed, err
}
