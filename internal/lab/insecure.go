package lab

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/choria-io/tokens"
	natsd "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// insecure is the network without credentials. go-choria's broker refuses
// clients that have neither TLS nor a token, so this one's is a NATS server.
type insecure struct{ files }

func (n insecure) collective() string { return "mcollective" }

func (n insecure) makeKeys() error {
	cert, err := selfSigned("localhost", false)
	if err != nil {
		return err
	}
	return errors.Join(cert.save(n.keys, "broker"), makeSigner(n.keys))
}

// makeSigner writes the RSA key pair that signs provisioning.jwt.
func makeSigner(dir string) error {
	key, err := rsa.GenerateKey(rand.Reader, keyBits)
	if err != nil {
		return err
	}
	private, err := keyPEM(key)
	if err != nil {
		return err
	}
	public, err := publicPEM(key.Public())
	if err != nil {
		return err
	}
	return saveFiles(dir, map[string][]byte{"signer.key": private, "signer.pem": public})
}

func (n insecure) provisioningJWT(claims *tokens.ProvisioningClaims) (string, error) {
	return tokens.SignTokenWithKeyFile(claims, n.key("signer.key"))
}

func (n insecure) strangersJWT(claims *tokens.ProvisioningClaims) (string, error) {
	return signAsStranger(claims)
}

func signAsStranger(claims *tokens.ProvisioningClaims) (string, error) {
	key, err := rsa.GenerateKey(rand.Reader, keyBits)
	if err != nil {
		return "", err
	}
	return tokens.SignToken(claims, key)
}

func (n insecure) provisioner() map[string]any {
	return map[string]any{
		"choria_insecure": true,
		"jwt_verify_cert": n.key("signer.pem"),
		"features":        map[string]any{"jwt": true},
	}
}

func (n insecure) client(string) settings { return settings{"plugin.security.provider": "file"} }

func (n insecure) answer(q question, s site) (map[string]any, error) {
	return answerWith(configuration(q.Identity, s, settings{"plugin.security.provider": "file"})), nil
}

func (n insecure) verify(string, connection) ([]string, error) {
	return []string{"no credentials in this network"}, nil
}

// plainBroker is a NATS server of one account.
type plainBroker struct{ *natsd.Server }

func (n insecure) startBroker(ctx context.Context) (broker, error) {
	cert, err := tls.LoadX509KeyPair(n.key("broker.pem"), n.key("broker.key"))
	if err != nil {
		return nil, err
	}
	server, err := natsd.NewServer(&natsd.Options{
		ServerName: "localhost",
		Host:       "127.0.0.1",
		Port:       natsd.RANDOM_PORT,
		NoSigs:     true,
		LogFile:    filepath.Join(n.dir, "broker.log"),
		// servers in provisioning mode insist on TLS, nothing else here uses it
		TLS:         true,
		AllowNonTLS: true,
		TLSTimeout:  5,
		TLSConfig:   &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12},
		JetStream:   true,
		StoreDir:    filepath.Join(n.dir, "streams"),
	})
	if err != nil {
		return nil, err
	}
	server.ConfigureLogger()
	b := plainBroker{server}
	go server.Start()
	if err := poll(ctx, func() bool { return server.ReadyForConnections(time.Second) }); err != nil {
		b.stop()
		return nil, err
	}
	if err := b.allowElections(ctx); err != nil {
		b.stop()
		return nil, fmt.Errorf("preparing leader elections: %w", err)
	}
	return b, os.Chmod(filepath.Join(n.dir, "broker.log"), 0o600)
}

// allowElections makes what go-choria's broker would: an election's client in
// the provisioning account reaches the bucket through these subjects.
func (b plainBroker) allowElections(ctx context.Context) error {
	mappings := map[string]string{
		"choria.streams.$KV.>":         "$KV.>",
		"choria.streams.STREAM.INFO.*": "$JS.API.STREAM.INFO.{{wildcard(1)}}",
	}
	for from, to := range mappings {
		if err := b.GlobalAccount().AddMapping(from, to); err != nil {
			return err
		}
	}
	nc, err := nats.Connect("", nats.InProcessServer(b))
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := nc.JetStream(nats.Context(ctx))
	if err != nil {
		return err
	}
	_, err = js.CreateKeyValue(&nats.KeyValueConfig{Bucket: electionBucket, TTL: 10 * time.Second})
	return err
}

func (b plainBroker) url() string { return "nats://" + b.Addr().String() }

func (b plainBroker) stop() {
	b.Shutdown()
	b.WaitForShutdown()
}

func (b plainBroker) connections(context.Context) ([]connection, error) {
	z, err := b.Connz(&natsd.ConnzOptions{Username: true, Subscriptions: true, Limit: connzLimit})
	if err != nil {
		return nil, err
	}
	return readConnz(z), nil
}
