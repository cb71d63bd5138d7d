package output

import (
	"errors"

	"choria-provision/discovery"
	"choria-provision/provision"
	"choria-provision/provision/helper"
	"choria-provision/provision/trust"
)

// cause is a class of errors that an operator treats in its own way. The id is
// part of the JSON report and never changes.
type cause struct {
	id   string
	err  error
	hint string
}

// duplicateCause is the id of two machines with one identity.
const duplicateCause = "twins"

// otherCause is the id of an error that matches no row of causes.
const otherCause = "other"

// causes maps errors to ids and hints; the first match wins.
var causes = []cause{
	{duplicateCause, provision.ErrTwins, "Two machines use this identity: look for a cloned disk or a doubled host name."},
	{duplicateCause, discovery.ErrTwins, "Two machines use this identity: look for a cloned disk or a doubled host name."},
	{duplicateCause, discovery.ErrOtherCase, "Certificates and DNS know one name for both: rename one of the machines, or see which of them has no right to it."},
	{"invalid_identity", discovery.ErrInvalidIdentity, "Look for the machine that gives this name; an identity is a host name of letters, digits, dots, dashes and underscores."},
	{"token", provision.ErrToken, "Compare `token` in the configuration with the token in the node's provisioning.jwt."},
	{"unauthorized", provision.ErrUnauthorized, "The node's action policies or its signed request checks refuse the client: check its identity and certificate, and the policies on the node's image."},
	{"busy", provision.ErrBusy, "Another provisioner works on this node; its lock ends after two minutes and a later run takes the node again."},
	{"refused", provision.ErrRefused, "Read the node's own words above and its log (choria-server on the node)."},
	{"gone", provision.ErrGone, "The node left before it was asked: see whether it is up, and whether it reaches the broker."},
	{"no_reply", provision.ErrNoReply, "See on the node whether choria-server runs and reaches the broker, and whether its clock is right: at a first boot it often is not, and a node drops a request whose age passes its time-to-live (60 s), which only its own log says (`is too old`). A slow network needs a longer `rpc_timeout`."},
	{"nonsense", provision.ErrNonsense, "The node answered something else than its agent would: check which version it runs, and who else may answer in its name."},
	{"paused", provision.ErrPaused, "`provision resume` ends the pause; `provision status` shows who paused it and why."},
	{"not_leader", provision.ErrNotLeader, "Another instance took over; it will work on this node."},
	{"stopped", provision.ErrStopped, "The next run resumes this node; a run that never gets through needs a longer `run_timeout` or more `workers`."},
	{"too_large", provision.ErrTooLarge, "Have the helper answer with less: fewer or smaller policies; the broker takes no more than its `max_payload` in one message."},
	{"network", provision.ErrNetwork, "Check that the broker is up and that this host reaches it; the next run takes the node again."},
	{"helper_timeout", helper.ErrTimeout, "Try it with `provision helper run --identity NODE`; a slow source needs a longer `helper_timeout`."},
	{"helper_answer", helper.ErrAnswer, "Correct the helper: `provision helper run --identity NODE` shows and checks its answer."},
	{"helper", helper.ErrFailed, "Try it with `provision helper run --identity NODE`; the end of its stderr stands with the error."},
	{"jwt", trust.ErrJWT, "Compare `jwt_verify_cert` with the key that signed the node's provisioning.jwt; a machine of another site does not belong here."},
	{"jwt_expired", trust.ErrJWTExpired, "Sign a new provisioning.jwt and put it on the node's image; check the clock of this host."},
	{"jwt_too_early", trust.ErrJWTTooEarly, "Compare the clock of this host with that of the one that signs provisioning.jwt; a minute's difference is allowed."},
	{"verify_key", trust.ErrVerifyKey, "Check `jwt_verify_cert`: `provision config check` tells whether it can be read and what is in it."},
	{"key_proof", trust.ErrKeyProof, "The node may be posing as another: look at the machine before it is tried again."},
	{"csr", trust.ErrCSR, "The request asks for more than a server of this name gets: look at the machine; `cert_allow_list` admits further names, `cert_deny_list` forbids them."},
	{"signing", trust.ErrSigning, "Check `jwt_signing_key` and `jwt_signing_token`, and the helper's `server_claims`."},
	{"key_in_transit", trust.ErrKeyInTransit, "A helper may return `key` only with the jwt feature on, and as a PEM private key."},
	{"upgrade", provision.ErrUpgrade, "Check `upgrades_repository` and the version that the helper asks for; `upgrades_optional: true` goes on without the upgrade."},
	{"held", provision.ErrHeld, "It was just worked on and may still be restarting: a later run looks again, `--force` does so now."},
	{"stale", provision.ErrStale, "It was seen too long ago to trust: the next run discovers it anew."},
	{"locked", provision.ErrLocked, "Another provision process works on this node: let it finish."},
	{"owned", provision.ErrOwned, "`provision reset NODE` frees it, once it is sure that this site may take it over."},
	{"in_service", provision.ErrInService, "Nothing is left to do; `provision reset --reprovision NODE` has it wait again. If it is not in service after all, see whether choria-server runs there and reaches the broker."},
	{"resetting", provision.ErrResetting, "`provision reset NODE` finishes the reset and frees the node."},
	{"record", provision.ErrRecord, "`provision reset NODE` forgets the record and frees the node."},
	{"state", provision.ErrState, "Do what the error says about the state directory; the next run takes the nodes that were not started."},
}

// Hint returns the id of err's cause and a hint for the operator. An error
// that matches no row is "other" and has no hint; for nil both are empty.
func Hint(err error) (id, hint string) {
	if err == nil {
		return "", ""
	}
	for _, c := range causes {
		if errors.Is(err, c.err) {
			return c.id, c.hint
		}
	}
	return otherCause, ""
}

// causeOf returns the row with that id. A report holds the id only.
func causeOf(id string) (cause, bool) {
	for _, c := range causes {
		if c.id == id {
			return c, true
		}
	}
	return cause{}, false
}
