package provision

import (
	"context"
	"errors"
	"fmt"
	"time"

	"choria-provision/discovery"
	"choria-provision/provision/helper"

	wire "github.com/choria-io/go-choria/providers/agent/mcorpc/golang/provision"
)

// consultHelper has the site decide. Its answer is checked here, so that whatever
// would only show at the server's next start is refused before anything is sent.
func (n *node) consultHelper(ctx context.Context) (Outcome, error) {
	answer, err := n.execHelper(ctx)
	if err != nil {
		return proceed, err
	}
	n.answer, n.hasAnswer, n.result.Message = answer, true, answer.Message
	switch {
	case answer.Shutdown:
		return n.shutDown(ctx)
	case answer.Defer:
		return n.mode.outcome(Deferred), nil
	}
	n.upgrading = upgradeEnds(answer, n.facts, n.cfg)
	return proceed, n.mode.refusal(n, n.checkAnswer())
}

func (n *node) checkAnswer() error {
	warnings, err := n.answer.Check(helper.CheckInput{
		Identity: n.identity, Config: n.cfg, Valid: discovery.ValidIdentity, CSR: n.csr.request, ED25519: n.key.public, SSLDir: n.sslDir(),
		UpgradeOnly: n.upgrading,
	})
	n.warnAll(warnings)
	if err != nil {
		n.emit(AnswerRefused{n.identity, err})
	}
	return err
}

// execHelper ends the helper when the run is stopped: its answer is not needed then.
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
	n.emit(HelperDone{Node: n.identity, Took: time.Since(started), Err: err})
	return answer, err
}

// shutDown passes the helper's wish on. Only a node that cannot be asked is a
// failure: one that says no has its reasons.
func (n *node) shutDown(ctx context.Context) (Outcome, error) {
	if n.answer.Message == "" {
		n.warn("the helper asked for a shutdown and gave no reason (msg)")
	}
	if planned := n.mode.outcome(Shutdown); planned != Shutdown {
		return planned, nil
	}
	token, err := n.token()
	if err != nil {
		return proceed, err
	}
	if err := n.markInstalling(); err != nil {
		return proceed, err
	}
	n.replyLost = false
	_, err = call(ctx, &n.client, shutdown, wire.ShutdownRequest{Token: token})
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
	n.emit(ShutdownAccepted{n.identity})
	return Shutdown, nil
}
