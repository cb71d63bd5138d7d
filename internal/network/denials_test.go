package network

import (
	"fmt"
	"io"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/sirupsen/logrus"
)

func newDenials() *denials {
	log := logrus.New()
	log.SetOutput(io.Discard)
	return &denials{log: logrus.NewEntry(log)}
}

func forbidden(subject string) error {
	return fmt.Errorf(`%w: Permissions Violation for Subscription to "%s"`, nats.ErrPermissionViolation, subject)
}

// TestTheLatestDenialIsKnownAfterMany has what watch meets where replies are
// forbidden: each broadcast has an inbox of its own.
func TestTheLatestDenialIsKnownAfterMany(t *testing.T) {
	t.Parallel()
	d := newDenials()
	for i := range maxDenied + 1 {
		d.note(forbidden(fmt.Sprint("provisioning.reply.", i)))
	}
	if last := fmt.Sprint("provisioning.reply.", maxDenied); !d.has(last) {
		t.Errorf("%s is not known", last)
	}
	if d.has("provisioning.reply.0") {
		t.Error("the oldest is still kept")
	}
}

func TestADenialIsForgottenBeforeTheNextAttempt(t *testing.T) {
	t.Parallel()
	d := newDenials()
	d.note(forbidden("a"))
	d.note(forbidden("b"))
	d.forget("a")
	if d.has("a") || !d.has("b") {
		t.Errorf("got a %v and b %v, want b alone", d.has("a"), d.has("b"))
	}
}
