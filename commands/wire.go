package commands

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"choria-provision/config"
	"choria-provision/internal/network"
	"choria-provision/output"
	"choria-provision/output/metrics"
	"choria-provision/provision"
	"choria-provision/provision/installstate"

	choriaconfig "github.com/choria-io/go-choria/config"
	"github.com/sirupsen/logrus"
)

// connect makes the one broker connection of a command. Configuration mistakes
// are told from a broker that cannot be reached by their exit code.
func (a *app) connect(stop context.Context, cfg *config.Config, logger *logrus.Logger) (*network.Conn, error) {
	client, err := a.loadChoria(cfg)
	if err != nil {
		return nil, err
	}
	return a.dial(stop, cfg, client, logger)
}

// dial connects with a client configuration; what go-choria logs goes to logger.
// The error ends with what to do about it.
func (a *app) dial(stop context.Context, cfg *config.Config, client *choriaconfig.Config, logger *logrus.Logger) (*network.Conn, error) {
	conn, err := a.open(stop, cfg, client, logger)
	if err != nil {
		return nil, withRemedy(err)
	}
	return conn, nil
}

// errTLSUnused is a broker that demands TLS of a client that has turned it off.
var errTLSUnused = errors.New("the broker demands TLS, which `choria_insecure: true` turns off here")

// open is dial without advice.
func (a *app) open(stop context.Context, cfg *config.Config, client *choriaconfig.Config, logger *logrus.Logger) (*network.Conn, error) {
	client.CustomLogger = logger
	conn, err := network.Dial(stop, client, "provision "+client.Identity, cfg.ConnectTimeout.Duration)
	switch {
	case cfg.Insecure && errors.Is(err, network.ErrTLS):
		return nil, fmt.Errorf("%w; %w", err, errTLSUnused)
	case err != nil:
		return nil, connectError(stop, client, err)
	}
	if cfg.Records != config.RecordsStreams { // there the claims keep hosts apart
		conn.OnSharedIdentity(func() {
			logger.Warnf("another host uses the client identity %s at this moment: nodes cannot tell the two apart, and both may work on one at once; give each host a Choria client configuration with an identity of its own, or let them share their records (`records: streams`)", client.Identity)
		})
	}
	return conn, nil
}

// connectError tells a configuration that cannot be used, and a command that was
// stopped, from a broker that cannot be reached.
func connectError(stop context.Context, client *choriaconfig.Config, err error) error {
	switch {
	case errors.Is(err, network.ErrSecurity):
		return fmt.Errorf("%w: %s: %w", errConfig, client.ConfigFile, err)
	case stop.Err() != nil:
		return fmt.Errorf("%w: while connecting", interruption(stop))
	default:
		return err
	}
}

// errNoClient is a machine on which nothing names the broker.
var errNoClient = errors.New("this machine has no Choria client configuration")

// remedy is what to do about a connection that could not be made or that
// reaches no node.
type remedy struct {
	id     string // for programs
	cause  error
	remedy string
}

// remedies lists the causes; the first match wins.
var remedies = []remedy{
	{"no_client", errNoClient, "name one with --choria-config"},
	{"configuration", errConfig, ""}, // it says so itself
	{"tls_unused", errTLSUnused, "take `choria_insecure` out"},
	{"streams", network.ErrStreams, ""},
	{"election", network.ErrElection, ""},
	{"gateway_away", metrics.ErrGatewayAway, "check that the Pushgateway runs and that pushgateway.url names it"},
	{"gateway_refuses", metrics.ErrGatewayRefuses, "check pushgateway.username, password_file and headers"},
	{"no_gateway", metrics.ErrNoGateway, "check pushgateway.url: it is the address of the Pushgateway itself, with the path of a proxy where there is one"},
	{"unauthorized", network.ErrUnauthorized, "check broker_provisioning_password and the credentials in the Choria client configuration"},
	{"tls", network.ErrTLS, "check that the CA in the Choria client configuration is the one that signed the broker's certificate, and the host name in plugin.choria.middleware_hosts"},
	{"silent", network.ErrSilent, "something listens there that does not speak NATS, or the network drops packets; check plugin.choria.middleware_hosts"},
	{"forbidden", network.ErrForbidden, "correct the permissions of this client on the broker: it publishes to COLLECTIVE.broadcast.agent.discovery and COLLECTIVE.node.>, and subscribes to its own COLLECTIVE.reply.>"},
	{"production", network.ErrProduction, "set broker_provisioning_password to the broker's plugin.choria.network.provisioning.client_password; where the service has it as a credential (LoadCredential), run the command by provision-as-service"},
	{"unreachable", network.ErrUnreachable, "check that the broker runs and that plugin.choria.middleware_hosts names it"},
}

// remedyOf returns the first row of remedies that fits, or one of no known cause.
func remedyOf(err error) remedy {
	for _, row := range remedies {
		if errors.Is(err, row.cause) {
			return row
		}
	}
	return remedy{id: "other"}
}

func withRemedy(err error) error {
	if row := remedyOf(err); row.remedy != "" {
		return fmt.Errorf("%w; %s", err, row.remedy)
	}
	return err
}

// interruption is why stop ended: a signal, or the run's own time.
func interruption(stop context.Context) error {
	cause := context.Cause(stop)
	if errors.Is(cause, context.DeadlineExceeded) {
		cause = errors.New("the run's time was up")
	}
	return fmt.Errorf("%w: %w", errInterrupted, cause)
}

// mayWork returns what is asked before every attempt of every call: whether
// provisioning is paused, and whether this process still holds its claims and
// leads.
func mayWork(store *installstate.Store, lease *network.Lease) func() error {
	return func() error {
		if err := checkPause(store); err != nil {
			return newNotNow(err)
		}
		if lease == nil || lease.Err() == nil {
			return checkClaims(store)
		}
		return fmt.Errorf("%w: %w", provision.ErrNotLeader, lease.Err())
	}
}

// notNow is an error of checkPause as the cause that keeps a node from being
// worked on. It reads as that error without "nothing was done": of a node that
// is at work something was.
type notNow struct{ cause, err error }

func newNotNow(err error) error {
	if errors.Is(err, errNothing) {
		return notNow{provision.ErrPaused, err}
	}
	return notNow{provision.ErrState, err}
}

func (n notNow) Error() string { return withoutNothing(n.err) }

// Unwrap returns the cause and the error.
func (n notNow) Unwrap() []error { return []error{n.cause, n.err} }

// withoutNothing leaves out that nothing was done.
func withoutNothing(err error) string {
	return strings.TrimPrefix(err.Error(), errNothing.Error()+": ")
}

// fence returns until when requests may act: as long as this process's claims
// last, and its lease if there is one.
func fence(store *installstate.Store, lease *network.Lease) network.Fence {
	claims := func() (time.Time, error) { return store.Deadline(), nil }
	if lease == nil {
		return claims
	}
	return network.EarliestFence(claims, lease.Fence)
}

// checkClaims returns an error when nodes may be another process's by now.
func checkClaims(store *installstate.Store) error {
	if err := store.CheckClaims(); err != nil {
		return fmt.Errorf("%w: %w", provision.ErrState, err)
	}
	return nil
}

// checkPause returns errNothing while provisioning is paused, or the error of a
// state that cannot be read.
func checkPause(store *installstate.Store) error {
	pause, err := store.Pause()
	switch {
	case errors.Is(err, installstate.ErrPauseFlag):
		return fmt.Errorf("%w: %w", errNothing, err)
	case err != nil:
		return err
	case pause == nil:
		return nil
	}
	text := "paused since " + pause.Since.Local().Format("2006-01-02 15:04:05")
	if pause.Reason != "" {
		text += ": " + output.Escape(pause.Reason)
	}
	return fmt.Errorf("%w: provisioning is %s; `provision resume` ends the pause", errNothing, text)
}

// lockRun keeps a second once or watch from working at the same time.
func lockRun(store *installstate.Store) (*installstate.RunLock, error) {
	lock, err := store.AcquireRunLock()
	if errors.Is(err, installstate.ErrLockHeld) {
		return nil, fmt.Errorf("%w: %w", errNothing, err)
	}
	return lock, err
}

// lastReport returns the report of the last run, nil before the first.
func lastReport(store *installstate.Store) (*output.Document, error) {
	packed, err := store.LastReport()
	if err != nil || packed == nil {
		return nil, err
	}
	doc, err := output.ReadReport(packed)
	if err != nil {
		return nil, err
	}
	return &doc, nil
}
