package provision

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	wire "github.com/choria-io/go-choria/providers/agent/mcorpc/golang/provision"

	"choria-provision/discovery"
	"choria-provision/provision/helper"
	"choria-provision/provision/trust"
)

// The steps, in the order of the sequence.

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
	n.proof.reply, err = call(ctx, n, jwt, wire.JWTRequest{Token: token})
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
	reply, err := call(ctx, n, gen25519, wire.ED25519Request{Token: token, Nonce: nonce})
	if err != nil {
		return proceed, err
	}
	public, err := trust.VerifyKeyProof(reply, nonce)
	n.key = nodeKey{reply, public}
	return proceed, err
}

func (n *node) fetchInventory(ctx context.Context) (Outcome, error) {
	reply, err := call(ctx, n, inventory, inventoryRequest{})
	if err != nil {
		return proceed, err
	}
	found := facts{raw: reply}
	if err := json.Unmarshal(reply, &found); err != nil {
		return proceed, fmt.Errorf("%w: the inventory: %w", ErrNonsense, err)
	}
	n.facts, n.result.Version = found, found.Version
	return proceed, nil
}

func (n *node) requestCSR(ctx context.Context) (Outcome, error) {
	token, err := n.token()
	if err != nil {
		return proceed, err
	}
	n.csr.asked = true
	n.csr.reply, err = call(ctx, n, gencsr, wire.CSRRequest{Token: token, CN: n.id})
	return proceed, err
}

func (n *node) verifyCSR(context.Context) (outcome Outcome, err error) {
	n.csr.request, err = trust.VerifyCSR(n.csr.reply, trust.CSRRules{Identity: n.id, Deny: n.cfg.CertDenyList, Allow: n.cfg.CertAllowList})
	return proceed, err
}

// consultHelper has the site decide. Its answer is checked here, so that whatever
// would only show at the server's next start is refused before anything is sent.
func (n *node) consultHelper(ctx context.Context) (Outcome, error) {
	answer, err := n.execHelper(ctx)
	if err != nil {
		return proceed, err
	}
	n.answer, n.result.Message = answer, answer.Message
	switch {
	case answer.Shutdown:
		return n.shutDown(ctx)
	case answer.Defer:
		return n.unlessDry(Deferred), nil
	}
	n.upgrading = upgradeEnds(answer, n.facts, n.cfg)
	err = n.checkAnswer()
	if err != nil && n.dry.On && (n.cfg.Features.PKI || n.cfg.Features.ED25519) {
		// The helper had neither request nor key: what is missing may be just that.
		n.warn(fmt.Sprintf("a real run would refuse this answer, unless it is another one once the node has made its key: %v", err))
		return proceed, nil
	}
	return proceed, err
}

func (n *node) checkAnswer() error {
	warnings, err := n.answer.Check(helper.CheckInput{
		Identity: n.id, Config: n.cfg, Valid: discovery.ValidIdentity, CSR: n.csr.request, ED25519: n.key.public, SSLDir: n.sslDir(),
		UpgradeOnly: n.upgrading,
	})
	n.warnAll(warnings)
	if err != nil {
		n.tell(AnswerRefused{n.id, err})
	}
	return err
}

// execHelper ends the helper when the run is stopped: nobody waits for it then.
func (n *node) execHelper(ctx context.Context) (helper.Answer, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(n.stop, cancel)()

	if n.helpers != nil {
		if err := n.helpers.Acquire(ctx, 1); err != nil {
			return helper.Answer{}, n.ended(ctx)
		}
		defer n.helpers.Release(1)
	}
	if err := n.checkAllowed(true); err != nil { // that may have taken a while
		return helper.Answer{}, err
	}
	started := time.Now()
	answer, err := n.helper.Answer(ctx, n.helperInput())
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("%w: the helper was ended", n.ended(ctx))
	}
	n.tell(HelperDone{Node: n.id, Took: time.Since(started), Err: err})
	return answer, err
}

// leftUnheard tells a node that did what would make it leave, and left before its
// reply was sent or heard: an agent may end its server at once.
func (n *node) leftUnheard(err error) bool { return errors.Is(err, ErrGone) && n.replyLost }

// shutDown passes the helper's wish on. Only a node that cannot be asked is a
// failure: one that says no has its reasons.
func (n *node) shutDown(ctx context.Context) (Outcome, error) {
	if n.answer.Message == "" {
		n.warn("the helper asked for a shutdown and gave no reason (msg)")
	}
	if n.dry.On {
		return Planned, nil
	}
	token, err := n.token()
	if err != nil {
		return proceed, err
	}
	if err := n.claim(); err != nil {
		return proceed, err
	}
	n.replyLost = false
	_, err = call(ctx, n, shutdown, wire.ShutdownRequest{Token: token})
	var refused *Refused
	switch {
	case n.leftUnheard(err):
		n.warn("the reply to shutdown was lost; the node has left, so it was accepted")
	case errors.As(err, &refused):
		n.warn(fmt.Sprintf("the node did not agree to shut down: %s", refused.Message))
		return Shutdown, nil
	case err != nil:
		return proceed, err
	}
	n.tell(ShutdownAccepted{n.id})
	return Shutdown, nil
}

func (n *node) issueServerJWT(context.Context) (Outcome, error) {
	if n.upgrading {
		return proceed, nil
	}
	token, warnings, err := trust.IssueServerJWT(trust.ServerJWTRequest{
		Identity: n.id, PublicKey: n.key.public, Config: n.cfg, Settings: n.answer, Claims: n.answer.ServerClaims,
	})
	n.warnAll(warnings)
	n.issued.serverJWT = token
	return proceed, err
}

func (n *node) encryptKey(context.Context) (outcome Outcome, err error) {
	if n.answer.Key == "" || n.upgrading {
		return proceed, nil
	}
	n.issued.key, n.issued.ecdh, err = trust.EncryptKey(n.answer.Key, n.proof.reply.ECDHPublic)
	return proceed, err
}

func (n *node) upgrade(ctx context.Context) (Outcome, error) {
	if n.answer.Upgrade == "" {
		return proceed, nil
	}
	err := n.releaseUpdate(ctx)
	switch {
	case err == nil && n.result.Upgrade == "": // it runs that release already
		return proceed, nil
	case err == nil:
		return Upgraded, nil
	case n.cfg.UpgradesOptional && !has(err, skips):
		n.warn(fmt.Sprintf("going on without the upgrade to %s: %v", n.answer.Upgrade, err))
		n.result.Upgrade = ""
		return proceed, n.prepareWithoutUpgrade(ctx)
	default:
		n.holdFail = true
		return proceed, err
	}
}

// prepareWithoutUpgrade makes up for what was left out because the upgrade was
// going to end the sequence: the answer is used after all.
func (n *node) prepareWithoutUpgrade(ctx context.Context) error {
	if !n.upgrading {
		return nil
	}
	n.upgrading = false
	if err := n.checkAnswer(); err != nil {
		return err
	}
	if n.cfg.Features.ED25519 {
		if _, err := n.issueServerJWT(ctx); err != nil {
			return err
		}
	}
	_, err := n.encryptKey(ctx)
	return err
}

func (n *node) releaseUpdate(ctx context.Context) error {
	decision, err := decideUpgrade(n.facts.Version, n.answer.Upgrade, n.facts.Upgradable, n.cfg)
	if err != nil || !decision.Needed {
		return err
	}
	token, err := n.token()
	if err != nil {
		return err
	}
	n.result.Upgrade = n.answer.Upgrade
	_, err = call(ctx, n, update, wire.ReleaseUpdateRequest{Token: token, Repository: n.cfg.UpgradesRepository, Version: n.answer.Upgrade})
	if err != nil && !has(err, skips) {
		return fmt.Errorf("%w: %w", ErrUpgrade, err)
	}
	return err
}

func (n *node) configure(ctx context.Context) (Outcome, error) {
	request, err := n.configuration()
	if err != nil {
		return proceed, err
	}
	n.replyLost, n.configuring = false, true
	_, err = call(ctx, n, configure, request)
	n.configuring = false
	return proceed, err
}

// configuration is everything the node gets, in one request.
func (n *node) configuration() (wire.ConfigureRequest, error) {
	token, err := n.token()
	if err != nil {
		return wire.ConfigureRequest{}, err
	}
	settings, err := json.Marshal(n.answer.Configuration)
	if err != nil {
		return wire.ConfigureRequest{}, fmt.Errorf("encoding the configuration: %w", err)
	}
	return wire.ConfigureRequest{
		Token:          token,
		Configuration:  string(settings),
		Key:            n.issued.key,
		ECDHPublic:     n.issued.ecdh,
		Certificate:    n.answer.Certificate,
		CA:             n.answer.CA,
		SSLDir:         n.sslDir(),
		ServerJWT:      n.issued.serverJWT,
		ActionPolicies: n.answer.ActionPolicies,
		OPAPolicies:    n.answer.OPAPolicies,
	}, nil
}

// sslDir is where the node said it keeps its credentials, else the helper's word.
func (n *node) sslDir() string {
	for _, directory := range []string{n.csr.reply.SSLDir, n.key.reply.Directory, n.answer.SSLDir} {
		if directory != "" {
			return directory
		}
	}
	return ""
}

// restart ends the sequence. A node whose reply was lost and that is gone by
// the next attempt did what it was asked.
func (n *node) restart(ctx context.Context) (Outcome, error) {
	token, err := n.token()
	if err != nil {
		return proceed, err
	}
	if err := n.checkAllowed(false); err != nil { // before the note, which is a trace as well
		return proceed, err
	}
	n.replyLost = false
	n.note(true)
	_, err = call(ctx, n, restart, wire.RestartRequest{Token: token, Splay: 1})
	switch {
	case n.leftUnheard(err):
		n.warn("the reply to restart was lost; the node has left, so it was accepted")
		return proceed, nil
	case err != nil && !n.replyLost && has(err, refusal|unsent):
		n.note(false)
	}
	return proceed, err
}

// note keeps in the record whether a restart may be under way. A node that has
// its configuration is owed its restart, whatever becomes of the record.
func (n *node) note(restarting bool) {
	if err := n.restarting(restarting); err != nil {
		n.warn(err.Error())
	}
}

func (n *node) unlessDry(o Outcome) Outcome {
	if n.dry.On {
		return Planned
	}
	return o
}
