package network

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/choria-io/go-choria/backoff"
	"github.com/choria-io/go-choria/choria"
	"github.com/choria-io/go-choria/tlssetup"
	"github.com/choria-io/tokens"
	"github.com/nats-io/nats.go"
	"github.com/sirupsen/logrus"
)

// choriaProvider is the security provider that authenticates by token.
const choriaProvider = "choria"

// options are the NATS options that go-choria's own connector has, with three
// differences that it gives no way to ask for: nothing is kept to be sent after
// a reconnect, where it keeps 10 KiB; the socket can be dropped; and a broker
// that was away is looked for more often, since runs wait for it.
func options(fw *choria.Framework, name string, d *dialer, log *logrus.Entry) ([]nats.Option, error) {
	cfg := fw.Configuration()
	prefix := cfg.MainCollective + ".reply"
	all := []nats.Option{
		nats.Name(name),
		nats.Timeout(cfg.Choria.NetworkConnectTimeout),
		nats.SetCustomDialer(d),
		nats.ReconnectBufSize(-1),
		nats.MaxReconnects(-1),
		nats.IgnoreAuthErrorAbort(),
		nats.CustomReconnectDelay(func(try int) time.Duration { return backoff.FiveSecStartGrace.Duration(try) }),
		nats.PingInterval(pingInterval),
	}
	if isTokenAuth(fw) {
		inbox, token, err := tokenOptions(fw, log)
		if err != nil {
			return nil, err
		}
		prefix, all = inbox, append(all, token...)
	}
	config, err := tlsConfig(fw)
	if err != nil {
		return nil, err
	}
	if config != nil {
		all = append(all, nats.Secure(config))
	}
	if cfg.Choria.NatsUser != "" && cfg.Choria.NatsPass != "" {
		all = append(all, nats.UserInfo(cfg.Choria.NatsUser, cfg.Choria.NatsPass))
	}
	if cfg.Choria.NatsCredentials != "" {
		all = append(all, nats.UserCredentials(cfg.Choria.NatsCredentials))
	}
	return append(all, nats.CustomInboxPrefix(prefix)), nil
}

// pingInterval lets a link that carries nothing any more be noticed within
// three times that.
const pingInterval = 10 * time.Second

func isTokenAuth(fw *choria.Framework) bool {
	return fw.Configuration().Choria.ClientAnonTLS || fw.SecurityProvider() == choriaProvider
}

// tokenOptions authenticate by the client's token and return the inbox that the
// broker allows for it. Without a seed the token alone is sent.
func tokenOptions(fw *choria.Framework, log *logrus.Entry) (inbox string, all []nats.Option, err error) {
	_, id, _, token, err := fw.UniqueIDFromUnverifiedToken()
	if err != nil {
		return "", nil, fmt.Errorf("reading the token: %w", err)
	}
	collective := fw.Configuration().MainCollective
	inbox, all = collective+".reply."+id, []nats.Option{nats.Token(token)}
	seed, err := fw.SignerSeedFile()
	if err != nil || seed == "" {
		return inbox, all, nil
	}
	_, claims, sign, err := tokens.NatsConnectionHelpers(token, collective, seed, log)
	if err != nil {
		return "", nil, fmt.Errorf("reading the token: %w", err)
	}
	return inbox, append(all, nats.UserJWT(claims, sign)), nil
}

// tlsConfig returns nil when TLS is off.
func tlsConfig(fw *choria.Framework) (*tls.Config, error) {
	cfg := fw.Configuration()
	switch {
	case cfg.DisableTLS:
		return nil, nil
	case isTokenAuth(fw) && fw.SecurityProvider() != choriaProvider: // go-choria's anonymous TLS
		base := tlssetup.TLSConfig(cfg)
		return &tls.Config{
			MinVersion: tls.VersionTLS12, CipherSuites: base.CipherSuites, CurvePreferences: base.CurvePreferences,
			InsecureSkipVerify: true, //nolint:gosec // the token authenticates us, nothing authenticates the broker
		}, nil
	default:
		config, err := fw.ClientTLSConfig()
		if err != nil {
			return nil, fmt.Errorf("TLS: %w", err)
		}
		return config, nil
	}
}

// dialer makes sockets as NATS asks for them and can drop the one in use.
type dialer struct {
	timeout time.Duration

	mu     sync.Mutex
	conn   net.Conn
	failed error // why the last socket could not be made
}

// Dial implements nats.CustomDialer.
func (d *dialer) Dial(network, address string) (net.Conn, error) {
	conn, err := net.DialTimeout(network, address, d.timeout)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.failed = err; err != nil {
		return nil, err
	}
	d.conn = conn
	return conn, nil
}

// explain returns what kept NATS from a socket, which it does not tell itself.
func (d *dialer) explain(err error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.failed == nil || !errors.Is(err, nats.ErrNoServers) {
		return err
	}
	return noSocket{d.failed}
}

// noSocket is nats.ErrNoServers with its reason.
type noSocket struct{ error }

// Is implements errors.Is.
func (noSocket) Is(target error) bool { return target == nats.ErrNoServers }

// Unwrap returns the reason.
func (n noSocket) Unwrap() error { return n.error }

// drop closes the socket in use. What was written to it and has not left this
// machine is thrown away, where an ordinary close would go on sending it.
func (d *dialer) drop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if tcp, ok := d.conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // fails on a socket that is closed already
	}
	if d.conn != nil {
		_ = d.conn.Close() // likewise
	}
}

var errTimeout = errors.New("timed out")

// connect tries until the timeout, or until the broker has refused us twice for
// a cause that time does not mend. Its error is that of the last attempt.
func connect(stop context.Context, fw *choria.Framework, d *dialer, timeout time.Duration, all []nats.Option) (*nats.Conn, error) {
	ctx, cancel := context.WithTimeoutCause(stop, timeout, errTimeout)
	defer cancel()
	defer context.AfterFunc(ctx, d.drop)() // an attempt ends with its socket
	log := fw.Logger("network")
	refused := 0
	var last error
	for try := 1; ; try++ {
		nc, err := attempt(fw, all, log)
		if err == nil {
			return nc, nil
		}
		if ctx.Err() == nil { // else its end is not the broker's doing
			last = d.explain(err)
			log.Debugf("connecting to the broker failed (attempt %d): %v", try, last)
		}
		if kind := classify(err); errors.Is(kind, ErrUnauthorized) || errors.Is(kind, ErrTLS) {
			refused++
		}
		if refused == 2 {
			return nil, fmt.Errorf("%w: %w", classify(last), last)
		}
		select {
		case <-time.After(backoff.Default.Duration(try)):
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			return nil, gaveUp(stop, last)
		}
	}
}

func attempt(fw *choria.Framework, all []nats.Option, log *logrus.Entry) (*nats.Conn, error) {
	servers, _, err := brokers(fw)
	if err != nil {
		return nil, fmt.Errorf("finding the broker: %w", err)
	}
	log.Debugf("connecting to %s", strings.Join(servers.Strings(), ", "))
	return nats.Connect(strings.Join(servers.Strings(), ", "), all...)
}

// gaveUp is why no further attempt is made.
func gaveUp(stop context.Context, last error) error {
	switch {
	case stop.Err() != nil:
		return context.Cause(stop)
	case last == nil: // the first attempt took all the time
		return ErrSilent
	default:
		return fmt.Errorf("%w: %w", classify(last), last)
	}
}

// classify reads the texts of nats.go, of brokers and of crypto/tls.
func classify(err error) error {
	lower := strings.ToLower(err.Error())
	switch {
	case errors.Is(err, nats.ErrNoServers):
		return ErrUnreachable
	case strings.Contains(lower, "authorization"), strings.Contains(lower, "authentication"):
		return ErrUnauthorized
	case strings.Contains(lower, "x509"), strings.Contains(lower, "tls:"), strings.Contains(lower, "secure connection"):
		return ErrTLS
	case strings.Contains(lower, "timeout"):
		return ErrSilent
	default:
		return ErrUnreachable
	}
}
