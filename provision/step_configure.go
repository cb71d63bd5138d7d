package provision

import (
	"context"
	"encoding/json"
	"fmt"

	wire "github.com/choria-io/go-choria/providers/agent/mcorpc/golang/provision"
)

func (n *node) upgrade(ctx context.Context) (Outcome, error) {
	if !n.upgrades() {
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
	_, err = call(ctx, &n.client, update, wire.ReleaseUpdateRequest{Token: token, Repository: n.cfg.UpgradesRepository, Version: n.answer.Upgrade})
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
	_, err = call(ctx, &n.client, configure, request)
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
	_, err = call(ctx, &n.client, restart, wire.RestartRequest{Token: token, Splay: 1})
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
	if err := n.record.saveRestartRequested(restarting); err != nil {
		n.warn(err.Error())
	}
}
