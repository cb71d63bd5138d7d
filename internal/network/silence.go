package network

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/sirupsen/logrus"
)

// ErrProduction is the cause of a broadcast that reached no node, as ErrForbidden
// can be.
var ErrProduction = errors.New("the broker has this connection in its production account, where no node waits")

// go-choria's broker: the account of clients that did not log in to the
// provisioning account (broker/network), and where a client asks for its own.
const (
	productionAccount = "choria"
	userInfo          = "$SYS.REQ.USER.INFO"
	userInfoTimeout   = time.Second
)

// violation finds direction and subject in what NATS says of a forbidden one.
var violation = regexp.MustCompile(`(?i)permissions violation for (publish|subscription) to "([^"]+)"`)

// maxDenied bounds how many forbidden subjects are kept, the latest ones: each
// broadcast has an inbox of its own.
const maxDenied = 100

// denials are the subjects that the broker has forbidden. It says so some time
// after they were used.
type denials struct {
	log *logrus.Entry

	mu       sync.Mutex
	subjects []string
}

// note keeps a permission violation and logs it once.
func (d *denials) note(err error) {
	if !errors.Is(err, nats.ErrPermissionViolation) {
		return
	}
	match := violation.FindStringSubmatch(err.Error())
	switch {
	case match == nil:
		d.log.Warn(err)
		return
	case match[2] == userInfo: // the account then stays unknown
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if slices.Contains(d.subjects, match[2]) {
		return
	}
	if len(d.subjects) == maxDenied {
		d.subjects = d.subjects[1:]
	}
	d.subjects = append(d.subjects, match[2])
	d.log.Warnf("the broker forbids this client a %s to %s", match[1], match[2])
}

// forget has a subject count as allowed until the broker forbids it again: its
// permissions may have been corrected.
func (d *denials) forget(subject string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.subjects = slices.DeleteFunc(d.subjects, func(s string) bool { return s == subject })
}

func (d *denials) has(subject string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Contains(d.subjects, subject)
}

// whySilent returns why a broadcast to target with replies to inbox was answered
// by no node, as far as the broker tells; nil when it may be that none waits.
// before is the connection's last error before the broadcast.
func (c *Conn) whySilent(ctx context.Context, target, inbox string, before error) error {
	account := c.account(ctx) // a round trip: violations have arrived by then
	//nolint:errorlint // compares occurrences: an equal error that is a new one counts
	if last := c.nc.LastError(); last != nil && last != before {
		c.denials.note(last)
	}
	switch {
	case c.denials.has(target):
		return fmt.Errorf("%w: publishing to %s", ErrForbidden, target)
	case c.denials.has(inbox):
		return fmt.Errorf("%w: subscribing to %s", ErrForbidden, inbox)
	case account == productionAccount:
		return ErrProduction
	default:
		return nil
	}
}

// account is the name of the broker's account that this connection is in, empty
// when the broker does not tell.
func (c *Conn) account(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, userInfoTimeout)
	defer cancel()
	inbox := inboxOf(c.sender, c.host)
	sub, err := c.nc.SubscribeSync(inbox)
	if err != nil {
		return ""
	}
	defer func() { _ = sub.Unsubscribe() }() // fails only on a connection that is gone
	if err := c.nc.PublishRequest(userInfo, inbox, nil); err != nil {
		return ""
	}
	reply, err := sub.NextMsgWithContext(ctx)
	if err != nil {
		return ""
	}
	var info struct {
		Data struct {
			Account string `json:"account"`
		} `json:"data"`
	}
	if json.Unmarshal(reply.Data, &info) != nil {
		return ""
	}
	return info.Data.Account
}
