package network

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"io"
	"math/big"
	"net"
	"os"
	"testing"
	"time"

	"github.com/choria-io/go-choria/choria"
	choriaconfig "github.com/choria-io/go-choria/config"
	"github.com/choria-io/go-choria/protocol"
	natsd "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/sirupsen/logrus"
	"go.uber.org/goleak"
)

// TestMain plays an insecure network: go-choria has one switch for the process.
func TestMain(m *testing.M) {
	protocol.Secure = "false"
	os.Unsetenv("MCOLLECTIVE_CERTNAME")
	goleak.VerifyTestMain(m)
}

// broker starts a NATS server on a free port of loopback.
func broker(t testing.TB, change func(*natsd.Options)) *natsd.Server {
	t.Helper()
	options := &natsd.Options{Host: "127.0.0.1", Port: -1, NoSigs: true, NoLog: true}
	if change != nil {
		change(options)
	}
	server, err := natsd.NewServer(options)
	if err != nil {
		t.Fatal(err)
	}
	server.Start()
	t.Cleanup(func() { server.Shutdown(); server.WaitForShutdown() })
	if !server.ReadyForConnections(10 * time.Second) {
		t.Fatal("the broker does not start")
	}
	return server
}

func client(t testing.TB, identity, url string) *choriaconfig.Config {
	t.Helper()
	cfg, err := choriaconfig.NewDefaultSystemConfig(true)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Identity, cfg.OverrideCertname = identity, identity
	cfg.DisableTLS = true
	cfg.Choria.SecurityProvider = "file"
	cfg.Choria.MiddlewareHosts = []string{url}
	cfg.Choria.NetworkConnectTimeout = 200 * time.Millisecond
	cfg.Collectives, cfg.MainCollective = []string{"provisioning"}, "provisioning"
	cfg.CustomLogger = logrus.New()
	cfg.CustomLogger.SetOutput(io.Discard)
	return cfg
}

func dial(t testing.TB, server *natsd.Server) *Conn {
	t.Helper()
	conn, err := Dial(t.Context(), client(t, "provisioner.mcollective", server.ClientURL()), "test", 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return conn
}

// machine answers requests as a server of go-choria does, in any name.
type machine struct {
	t  *testing.T
	fw *choria.Framework
	nc *nats.Conn
}

func newMachine(t *testing.T, server *natsd.Server, identity string) *machine {
	t.Helper()
	fw, err := choria.NewWithConfig(client(t, identity, server.ClientURL()))
	if err != nil {
		t.Fatal(err)
	}
	nc, err := nats.Connect(server.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return &machine{t, fw, nc}
}

// serve calls answer with each request on subject and the subject for replies.
func (m *machine) serve(subject string, answer func(request protocol.Request, replyTo string)) {
	m.t.Helper()
	_, err := m.nc.Subscribe(subject, func(msg *nats.Msg) {
		transport, err := m.fw.NewTransportFromJSON(msg.Data)
		if err != nil {
			m.t.Errorf("reading a request: %v", err)
			return
		}
		request, err := m.fw.NewRequestFromTransportJSON(msg.Data, true)
		if err != nil {
			m.t.Errorf("reading a request: %v", err)
			return
		}
		answer(request, transport.ReplyTo())
	})
	if err != nil {
		m.t.Fatal(err)
	}
	if err := m.nc.Flush(); err != nil {
		m.t.Fatal(err)
	}
}

// reply sends an RPC reply with this data.
func (m *machine) reply(request protocol.Request, replyTo string, data any) {
	reply, err := m.fw.NewReply(request)
	if err != nil {
		m.t.Error(err)
		return
	}
	m.send(reply, replyTo, map[string]any{"statuscode": 0, "statusmsg": "OK", "data": data})
}

// send seals and sends a reply with this message.
func (m *machine) send(reply protocol.Reply, replyTo string, message any) {
	body, err := json.Marshal(message)
	if err != nil {
		m.t.Error(err)
		return
	}
	reply.SetMessage(body)
	secure, err := m.fw.NewSecureReply(reply)
	if err != nil {
		m.t.Error(err)
		return
	}
	transport, err := m.fw.NewTransportForSecureReply(secure)
	if err != nil {
		m.t.Error(err)
		return
	}
	encoded, err := transport.JSON()
	if err != nil {
		m.t.Error(err)
		return
	}
	m.say(replyTo, encoded)
}

func (m *machine) say(replyTo string, data []byte) {
	if err := m.nc.Publish(replyTo, data); err != nil {
		m.t.Error(err)
	}
}

// within bounds a wait that should never be that long.
func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// serverTLS is a certificate that nobody trusts.
func serverTLS(t *testing.T) *tls.Config {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "localhost"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
}
