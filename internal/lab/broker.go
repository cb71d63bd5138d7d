package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/choria-io/go-choria/broker/network"
	"github.com/choria-io/go-choria/choria"
	"github.com/choria-io/go-choria/config"
	"github.com/nats-io/nats.go"
	"github.com/sirupsen/logrus"
)

// broker is a running broker.
type broker interface {
	nats.InProcessConnProvider // to the production account, without credentials
	url() string
	connections(ctx context.Context) ([]connection, error)
	stop() // and wait
}

// electionBucket is where leader elections take place; go-choria makes it last
// of all its streams.
const electionBucket = "CHORIA_LEADER_ELECTION"

// choriaBroker is go-choria's own, for the networks that have credentials.
type choriaBroker struct {
	*network.Server
	port, monitor int
	file          string // its configuration
	end           func()
	log           *os.File
}

// startChoriaBroker starts a broker with the given security keys on ports that
// are free and returns when it takes connections and elections.
func startChoriaBroker(ctx context.Context, dir string, security settings) (broker, error) {
	b := &choriaBroker{port: freePort(), monitor: freePort(), file: filepath.Join(dir, "broker.conf")}
	if err := security.with(b.settings(dir)).save(b.file); err != nil {
		return nil, err
	}
	var err error
	b.log, err = openLog(filepath.Join(dir, "broker.log"))
	if err != nil {
		return nil, err
	}
	if err := b.launch(ctx); err != nil {
		return nil, errors.Join(err, b.log.Close())
	}
	return b, nil
}

// launch starts the broker from its configuration and returns when it takes
// connections and elections. After an error nothing runs.
func (b *choriaBroker) launch(ctx context.Context) error {
	cfg, err := config.NewSystemConfig(b.file, true)
	if err != nil {
		return err
	}
	cfg.OverrideCertname = cfg.Identity
	failed := make(chan struct{})
	cfg.CustomLogger = newLogger(b.log, failed)
	if err := b.run(cfg); err != nil {
		return err
	}
	if err := b.ready(ctx, failed); err != nil {
		b.end()
		return fmt.Errorf("%w; the end of broker.log: %s", err, lastLine(b.log.Name()))
	}
	return nil
}

func (b *choriaBroker) settings(dir string) settings {
	const streams = "plugin.choria.network.stream."
	// The most that go-choria takes: letting a client in takes long on a machine
	// that is busy.
	const patience = "60s"
	s := settings{
		"identity":                                           "localhost",
		"loglevel":                                           "info",
		"plugin.choria.use_srv":                              "false",
		"plugin.choria.broker_network":                       "true",
		"plugin.choria.network.listen_address":               "127.0.0.1",
		"plugin.choria.network.tls_timeout":                  patience,
		"plugin.choria.network.auth_timeout":                 patience,
		"plugin.choria.network.client_port":                  fmt.Sprint(b.port),
		"plugin.choria.network.provisioning.client_password": brokerPassword,
		"plugin.choria.stats_address":                        "127.0.0.1",
		"plugin.choria.stats_port":                           fmt.Sprint(b.monitor),
		streams + "store":                                    filepath.Join(dir, "streams"),
		streams + "leader_election_ttl":                      "10s",
	}
	for _, stream := range []string{"event", "machine", "advisory", "executor", "leader_election"} {
		s[streams+stream+"_replicas"] = "1" // unset delays all of them by up to 70 s
	}
	return s
}

func (b *choriaBroker) run(cfg *config.Config) error {
	fw, err := choria.NewWithConfig(cfg)
	if err != nil {
		return err
	}
	b.Server, err = network.NewServer(fw, fw.BuildInfo(), false)
	if err != nil {
		return err
	}
	if err := tolerateLeavers(b.Server); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Add(1)
	go b.Start(ctx, &wg)
	b.end = func() {
		cancel()
		wg.Wait()
	}
	return nil
}

func (b *choriaBroker) ready(ctx context.Context, failed <-chan struct{}) error {
	err := poll(ctx, func() bool {
		select {
		case <-failed:
			return true
		default:
			return b.Started()
		}
	})
	switch {
	case err != nil:
		return err
	case !b.Started():
		return errors.New("the broker gave up")
	}
	return awaitElections(ctx, b)
}

func (b *choriaBroker) url() string { return fmt.Sprintf("nats://127.0.0.1:%d", b.port) }

func (b *choriaBroker) stop() {
	b.end()
	_ = b.log.Close()
}

// awaitElections returns when the bucket for elections is there.
func awaitElections(ctx context.Context, b nats.InProcessConnProvider) error {
	nc, err := nats.Connect("", nats.InProcessServer(b))
	if err != nil {
		return fmt.Errorf("connecting from inside: %w", err)
	}
	defer nc.Close()
	js, err := nc.JetStream()
	if err != nil {
		return err
	}
	err = poll(ctx, func() bool {
		_, err := js.KeyValue(electionBucket)
		return err == nil
	})
	if err != nil {
		return fmt.Errorf("waiting for %s: %w", electionBucket, err)
	}
	return nil
}

// freePort picks a port on loopback below those that the kernel gives to
// outgoing connections, so that none of these takes it before its owner does.
func freePort() int {
	for {
		port := 20000 + rand.IntN(12000)
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			_ = l.Close()
			return port
		}
	}
}

// poll asks until the answer is yes.
func poll(ctx context.Context, done func() bool) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

func openLog(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
}

// newLogger is what go-choria logs to. A fatal message closes failed instead
// of ending the process.
func newLogger(out *os.File, failed chan<- struct{}) *logrus.Logger {
	log := logrus.New()
	log.SetOutput(out)
	log.SetFormatter(&logrus.TextFormatter{DisableColors: true, FullTimestamp: true})
	var once sync.Once
	log.ExitFunc = func(int) { once.Do(func() { close(failed) }) }
	return log
}

// lastLine is the last line of a log, for errors.
func lastLine(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(string(bytes.TrimSpace(text)), "\n")
	return lines[len(lines)-1]
}
