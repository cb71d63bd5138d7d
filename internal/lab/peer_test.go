package lab

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/choria-io/go-choria/choria"
	provisionclient "github.com/choria-io/go-choria/client/choria_provisionclient"
	"github.com/choria-io/go-choria/client/rpcutilclient"
	election "github.com/choria-io/go-choria/providers/election/streams"
	"github.com/choria-io/tokens"
	"github.com/goccy/go-yaml"
)

// peer is the independent provisioner; all its knowledge comes from the files
// that the lab wrote for one.
type peer struct {
	dir    string
	fw     *choria.Framework
	config struct {
		Token    string `yaml:"token"`
		Helper   string `yaml:"helper"`
		Password string `yaml:"broker_provisioning_password"`
		Key      string `yaml:"jwt_signing_key"`
		Signer   string `yaml:"jwt_signing_token"`
		Upgrades string `yaml:"upgrades_repository"`
		Features struct {
			PKI     bool `yaml:"pki"`
			ED25519 bool `yaml:"ed25519"`
		} `yaml:"features"`
	}
}

func newPeer(dir string) (*peer, error) {
	p := &peer{dir: dir}
	text, err := os.ReadFile(filepath.Join(dir, "provision.yaml"))
	if err != nil {
		return nil, err
	}
	if err := yaml.Unmarshal(text, &p.config); err != nil {
		return nil, err
	}
	p.fw, err = clientFramework(dir, "client.conf")
	return p, err
}

// enter goes to the provisioning collective and, with a password, account.
func (p *peer) enter() {
	cfg := p.fw.Configuration()
	cfg.MainCollective, cfg.Collectives = "provisioning", []string{"provisioning"}
	if p.config.Password != "" {
		cfg.Choria.NatsUser, cfg.Choria.NatsPass = "provisioner", p.config.Password
	}
}

func (p *peer) provisionAll(ctx context.Context, nodes []string) error {
	p.enter()
	for _, node := range nodes {
		if err := p.provision(ctx, node); err != nil {
			return fmt.Errorf("%s: %w", node, err)
		}
	}
	return nil
}

func (p *peer) reprovision(ctx context.Context, nodes []string) error {
	client, err := provisionclient.New(p.fw)
	if err != nil {
		return err
	}
	result, err := client.OptionTargets(nodes).OptionWorkers(oneWorker).Reprovision(p.config.Token).Do(ctx)
	if err != nil {
		return err
	}
	for _, r := range result.AllOutputs() {
		if !r.ResultDetails().OK() {
			return errors.New(r.ResultDetails().StatusMessage())
		}
	}
	return nil
}

// elect returns when it has won.
func (p *peer) elect(ctx context.Context) error {
	p.enter()
	conn, err := p.fw.NewConnector(ctx, p.fw.MiddlewareServers, "elect", p.fw.Logger("elect"))
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	won := make(chan struct{})
	campaign, err := p.fw.NewElection(ctx, conn, "provisioner", true, election.OnWon(func() { close(won) }))
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- campaign.Start(ctx) }()
	select {
	case <-won:
		cancel()
		<-ended
		return nil
	case err := <-ended:
		return fmt.Errorf("the campaign ended: %w", err)
	}
}

// answer is what the peer takes from the helper.
type answer struct {
	Key           string            `json:"key"`
	Certificate   string            `json:"certificate"`
	CA            string            `json:"ca"`
	SSLDir        string            `json:"ssldir"`
	Upgrade       string            `json:"upgrade"`
	Configuration map[string]string `json:"configuration"`
}

func (p *peer) provision(ctx context.Context, node string) error {
	client, err := provisionclient.New(p.fw)
	if err != nil {
		return err
	}
	client.OptionTargets([]string{node}).OptionWorkers(oneWorker)

	input := map[string]any{"identity": node}
	proof, err := client.Jwt(p.config.Token).Do(ctx)
	if err != nil {
		return err
	}
	jwt := proof.AllOutputs() // a twin's reply may have come in time to be counted
	if len(jwt) == 0 || !jwt[0].ResultDetails().OK() {
		return fmt.Errorf("jwt: %d replies, none of use", len(jwt))
	}
	public, err := p.keys(ctx, client, input)
	if err != nil {
		return err
	}
	if err := p.inventory(ctx, node, input); err != nil {
		return err
	}
	given, err := p.helper(ctx, input)
	if err != nil {
		return err
	}
	if given.Upgrade != "" {
		return p.upgrade(ctx, client, given.Upgrade)
	}
	return p.configure(ctx, client, order{node, given, public, jwt[0].EcdhPublic()})
}

// order is what one node is configured with.
type order struct {
	node   string
	given  answer
	public string // ed25519, in hex
	ecdh   string // the node's, in hex
}

func (p *peer) keys(ctx context.Context, client *provisionclient.ChoriaProvisionClient, input map[string]any) (string, error) {
	switch {
	case p.config.Features.PKI:
		result, err := client.Gencsr(p.config.Token).Cn(input["identity"].(string)).Do(ctx)
		if err != nil {
			return "", err
		}
		for _, r := range result.AllOutputs() {
			input["csr"] = r.HashMap()
		}
	case p.config.Features.ED25519:
		result, err := client.Gen25519("nonce", p.config.Token).Do(ctx)
		if err != nil {
			return "", err
		}
		for _, r := range result.AllOutputs() {
			input["ed25519_pubkey"] = r.HashMap()
			return r.PublicKey(), nil
		}
	}
	return "", nil
}

func (p *peer) inventory(ctx context.Context, node string, input map[string]any) error {
	client, err := rpcutilclient.New(p.fw)
	if err != nil {
		return err
	}
	result, err := client.OptionTargets([]string{node}).OptionWorkers(oneWorker).Inventory().Do(ctx)
	if err != nil {
		return err
	}
	for _, r := range result.AllOutputs() {
		text, err := r.JSON()
		if err != nil {
			return err
		}
		input["inventory"] = string(text)
	}
	return nil
}

func (p *peer) helper(ctx context.Context, input map[string]any) (given answer, err error) {
	in, err := json.Marshal(input)
	if err != nil {
		return given, err
	}
	cmd := exec.CommandContext(ctx, p.config.Helper)
	cmd.Stdin = bytes.NewReader(in)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return given, err
	}
	return given, json.Unmarshal(out, &given)
}

func (p *peer) upgrade(ctx context.Context, client *provisionclient.ChoriaProvisionClient, version string) error {
	result, err := client.ReleaseUpdate(p.config.Upgrades, p.config.Token, version).Do(ctx)
	if err != nil {
		return err
	}
	for _, r := range result.AllOutputs() {
		if !r.ResultDetails().OK() {
			return errors.New(r.ResultDetails().StatusMessage())
		}
	}
	return nil
}

func (p *peer) configure(ctx context.Context, client *provisionclient.ChoriaProvisionClient, o order) error {
	config, err := json.Marshal(o.given.Configuration)
	if err != nil {
		return err
	}
	request := client.Configure(string(config)).Token(p.config.Token).
		Certificate(o.given.Certificate).Ca(o.given.CA).Ssldir(o.given.SSLDir)
	if o.given.Key != "" {
		key, public, err := encrypt(o.given.Key, o.ecdh)
		if err != nil {
			return err
		}
		request.Key(key).EcdhPublic(public)
	}
	if p.config.Features.ED25519 {
		token, err := p.serverJWT(o)
		if err != nil {
			return err
		}
		request.ServerJwt(token)
	}
	result, err := request.Do(ctx)
	if err != nil {
		return err
	}
	for _, r := range result.AllOutputs() {
		if !r.ResultDetails().OK() {
			return errors.New(r.ResultDetails().StatusMessage())
		}
	}
	_, err = client.Restart(p.config.Token).Splay(1).Do(ctx)
	return err
}

func (p *peer) serverJWT(o order) (string, error) {
	public, err := hex.DecodeString(o.public)
	if err != nil {
		return "", err
	}
	claims, err := tokens.NewServerClaims(o.node, []string{"choria"}, "choria", nil, nil,
		ed25519.PublicKey(public), "peer", 24*time.Hour)
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile(p.config.Signer)
	if err != nil {
		return "", err
	}
	signer, err := tokens.ParseClientIDTokenUnverified(string(text))
	if err != nil {
		return "", err
	}
	key, err := readSeed(p.config.Key)
	if err != nil {
		return "", err
	}
	if err := claims.AddChainIssuerData(signer, key); err != nil {
		return "", err
	}
	return tokens.SignToken(claims, key)
}

func encrypt(key, nodePublic string) (encrypted, public string, err error) {
	remote, err := hex.DecodeString(nodePublic)
	if err != nil {
		return "", "", err
	}
	private, own, err := choria.ECDHKeyPair()
	if err != nil {
		return "", "", err
	}
	secret, err := choria.ECDHSharedSecret(private, remote)
	if err != nil {
		return "", "", err
	}
	block, _ := pem.Decode([]byte(key))
	//lint:ignore SA1019 it is what a node can read
	locked, err := x509.EncryptPEMBlock(rand.Reader, "RSA PRIVATE KEY", block.Bytes, secret, x509.PEMCipherAES256)
	if err != nil {
		return "", "", err
	}
	return string(pem.EncodeToMemory(locked)), hex.EncodeToString(own), nil
}
