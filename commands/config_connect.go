package commands

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"choria-provision/config"
	"choria-provision/discovery"
	"choria-provision/internal/network"
	"choria-provision/output"
	"choria-provision/output/metrics"

	choriaconfig "github.com/choria-io/go-choria/config"
	"github.com/sirupsen/logrus"
)

// connection is what config check --connect found out about one of the systems
// that a run uses.
type connection struct {
	Name  string `json:"name"`            // broker, account, collective, election, records or pushgateway
	Tried string `json:"tried"`           // what was done
	OK    bool   `json:"ok"`              // whether a run could use it
	Found string `json:"found,omitempty"` // what was found, where it can be used
	Cause string `json:"cause,omitempty"` // id of what keeps it from being used
	Text  string `json:"text,omitempty"`  // that cause, in words
	Hint  string `json:"hint,omitempty"`  // what to do about it
}

// String is one line, and one with the hint where there is one.
func (c connection) String() string {
	if c.OK {
		return fmt.Sprintf("%s: %s: %s", c.Name, c.Tried, c.Found)
	}
	text := fmt.Sprintf("%s: error: %s: %s", c.Name, c.Tried, c.Text)
	if c.Hint != "" {
		text += "\n  hint: " + c.Hint
	}
	return text
}

// connectionTest tries one connection after the other. Each takes no longer
// than connect_timeout.
type connectionTest struct {
	*app
	stop   context.Context
	cfg    *config.Config
	client *choriaconfig.Config // nil: this machine has none
	done   func(connection)
	failed int
}

// run tries what the configuration names. What needs the broker is left out
// where it cannot be reached.
func (t *connectionTest) run() {
	t.tryBroker()
	if t.cfg.Records == config.RecordsStreams {
		t.try("records", "checking the buckets of shared records", t.tryRecords)
	}
	if t.cfg.Pushgateway.URL != "" {
		pusher := metrics.NewPusher(t.pushgateway(), t.cfg.Site, t.host())
		t.try("pushgateway", "asking "+pusher.Target(), func(ctx context.Context) (string, error) {
			return "it answers; nothing was pushed", pusher.Check(ctx)
		})
	}
}

// try reports what one test found, within connect_timeout.
func (t *connectionTest) try(name, tried string, test func(context.Context) (found string, err error)) bool {
	if t.stop.Err() != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(t.stop, t.cfg.ConnectTimeout.Duration)
	defer cancel()
	found, err := test(ctx)
	switch {
	case t.stop.Err() != nil:
		return false
	case err == nil:
		t.done(connection{Name: name, Tried: tried, OK: true, Found: found})
		return true
	}
	cause := remedyOf(err)
	t.failed++
	t.done(connection{Name: name, Tried: tried, Cause: cause.id, Text: output.Escape(err.Error()), Hint: cause.remedy})
	return false
}

func (t *connectionTest) tryBroker() {
	var conn *network.Conn
	connected := t.try("broker", "connecting", func(context.Context) (found string, err error) {
		if t.client == nil {
			return "", errNoClient
		}
		if conn, err = t.open(t.stop, t.cfg, t.client, quiet()); err != nil {
			return "", err
		}
		return "connected to " + conn.Server(), nil
	})
	if !connected {
		return
	}
	defer conn.Close()
	usable := t.try("account", "checking permissions", func(ctx context.Context) (string, error) {
		account, err := conn.CheckAccess(ctx, discovery.StartupSubject(t.cfg.LifecycleComponent))
		return accountFound(account), err
	})
	if usable {
		t.tryCollective(conn)
	}
	if usable && t.cfg.LeaderElection {
		t.try("election", "checking the leader election", func(ctx context.Context) (string, error) {
			return "a leader can be elected", conn.CheckElection(ctx)
		})
	}
}

func accountFound(account string) string {
	if account == "" {
		return "permitted; the broker does not name the account"
	}
	return "permitted in the account " + account
}

// tryCollective discovers once. No node that waits is no mistake.
func (t *connectionTest) tryCollective(conn *network.Conn) {
	collective := t.client.MainCollective
	t.try("collective", "discovery in the collective "+collective, func(ctx context.Context) (string, error) {
		window := min(t.cfg.DiscoveryTimeout.Duration, t.cfg.ConnectTimeout.Duration/2) // else silence would not end it
		nodes, err := discovery.Broadcast(ctx, conn, window, func(any) {})
		if errors.Is(err, context.DeadlineExceeded) && len(nodes) > 0 {
			return "more than " + count(len(nodes), "waiting node") + " answered", nil
		}
		return count(len(nodes), "waiting node") + " answered", err
	})
}

func (t *connectionTest) tryRecords(ctx context.Context) (string, error) {
	client, err := t.cfg.RecordsClient(os.Getenv)
	if err != nil {
		return "", err
	}
	client.CustomLogger = quiet()
	records, err := network.OpenRecords(ctx, client, network.BindBuckets, t.cfg.ConnectTimeout.Duration)
	if err != nil {
		return "", err
	}
	defer records.Close()
	return fmt.Sprintf("the buckets %s and %s can be used", network.RecordsBucket, network.SessionsBucket), records.CheckWrite(ctx)
}

// pushgateway is the configured one, with no more time than connect_timeout.
func (t *connectionTest) pushgateway() config.Pushgateway {
	gateway := t.cfg.Pushgateway
	gateway.Timeout.Duration = min(gateway.Timeout.Duration, t.cfg.ConnectTimeout.Duration)
	if gateway.Timeout.Duration == 0 {
		gateway.Timeout = t.cfg.ConnectTimeout
	}
	return gateway
}

// host is the name in the group of pushed metrics: only hosts that share records
// have one.
func (t *connectionTest) host() string {
	if t.cfg.Records != config.RecordsStreams {
		return ""
	}
	host, err := hostName()
	if err != nil { // records say so
		return ""
	}
	return host
}

// quiet is a logger whose lines would repeat what a command reports itself.
func quiet() *logrus.Logger {
	logger := logrus.New()
	logger.SetOutput(io.Discard)
	return logger
}
