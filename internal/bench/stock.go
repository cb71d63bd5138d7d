package main

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/choria-io/go-choria/choria"
	provisionclient "github.com/choria-io/go-choria/client/choria_provisionclient"
	"github.com/choria-io/go-choria/client/rpcutilclient"
	choriaconfig "github.com/choria-io/go-choria/config"
	"github.com/choria-io/go-choria/protocol"
	"github.com/choria-io/tokens"
	"github.com/goccy/go-yaml"
	"github.com/kballard/go-shellquote"
	"golang.org/x/sync/errgroup"

	"choria-provision/internal/fleet"
)

// stock provisions nodes with go-choria's generated clients, a new connection
// pair for each request, as the established tool does.
type stock struct {
	fw     *choria.Framework
	helper []string
	key    ed25519.PrivateKey     // signs server JWTs; nil on a network without
	signer *tokens.ClientIDClaims // whose key that is
	config struct {
		Insecure bool   `yaml:"choria_insecure"`
		Token    string `yaml:"token"`
		Helper   string `yaml:"helper"`
		Password string `yaml:"broker_provisioning_password"`
		Key      string `yaml:"jwt_signing_key"`
		Signer   string `yaml:"jwt_signing_token"`
	}
}

// runStock provisions the first simulated nodes of the lab that the
// environment names.
func runStock(nodes, workers int) error {
	s, err := newStock()
	if err != nil {
		return err
	}
	var group errgroup.Group
	group.SetLimit(workers)
	for i := range nodes {
		group.Go(func() error {
			if err := s.provision(context.Background(), fleet.Name(i)); err != nil {
				return fmt.Errorf("%s: %w", fleet.Name(i), err)
			}
			return nil
		})
	}
	return group.Wait()
}

func newStock() (*stock, error) {
	s := &stock{}
	text, err := os.ReadFile(os.Getenv("PROVISION_CONFIG"))
	if err != nil {
		return nil, err
	}
	if err := yaml.Unmarshal(text, &s.config); err != nil {
		return nil, err
	}
	if s.helper, err = shellquote.Split(s.config.Helper); err != nil {
		return nil, err
	}
	cfg, err := choriaconfig.NewSystemConfig(os.Getenv("PROVISION_CHORIA_CONFIG"), false)
	if err != nil {
		return nil, err
	}
	cfg.OverrideCertname = cfg.Identity
	cfg.MainCollective, cfg.Collectives = "provisioning", []string{"provisioning"}
	cfg.LogLevel = "error"
	if s.config.Password != "" {
		cfg.Choria.NatsUser, cfg.Choria.NatsPass = "provisioner", s.config.Password
	}
	if s.config.Insecure {
		cfg.DisableTLS, protocol.Secure = true, "false"
	}
	if s.fw, err = choria.NewWithConfig(cfg); err != nil {
		return nil, err
	}
	return s, s.readKeys()
}

func (s *stock) readKeys() error {
	if s.config.Key == "" {
		return nil
	}
	text, err := os.ReadFile(s.config.Key)
	if err != nil {
		return err
	}
	seed, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(seed) != ed25519.SeedSize {
		return errors.Join(errors.New("the signing key is no seed"), err)
	}
	s.key = ed25519.NewKeyFromSeed(seed)
	if text, err = os.ReadFile(s.config.Signer); err != nil {
		return err
	}
	s.signer, err = tokens.ParseClientIDTokenUnverified(string(text))
	return err
}

func (s *stock) provision(ctx context.Context, node string) error {
	client, err := provisionclient.New(s.fw)
	if err != nil {
		return err
	}
	client.OptionTargets([]string{node})
	proof, err := client.Jwt(s.config.Token).Do(ctx)
	if err != nil {
		return err
	}
	if ok := proof.Stats().OKCount(); ok != 1 {
		return fmt.Errorf("jwt: %d good replies", ok)
	}
	input := map[string]any{"identity": node, "csr": nil, "ed25519_pubkey": nil}
	public := ""
	if s.key != nil {
		if public, err = s.newKey(ctx, client, input); err != nil {
			return err
		}
	}
	if err := s.inventory(ctx, node, input); err != nil {
		return err
	}
	settings, err := s.ask(ctx, input)
	if err != nil {
		return err
	}
	return s.configure(ctx, client, node, settings, public)
}

func (s *stock) newKey(ctx context.Context, client *provisionclient.ChoriaProvisionClient, input map[string]any) (public string, err error) {
	result, err := client.Gen25519("nonce", s.config.Token).Do(ctx)
	if err != nil {
		return "", err
	}
	for _, r := range result.AllOutputs() {
		input["ed25519_pubkey"], public = r.HashMap(), r.PublicKey()
	}
	return public, nil
}

func (s *stock) inventory(ctx context.Context, node string, input map[string]any) error {
	client, err := rpcutilclient.New(s.fw)
	if err != nil {
		return err
	}
	result, err := client.OptionTargets([]string{node}).Inventory().Do(ctx)
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

// ask runs the helper and returns the configuration it answers.
func (s *stock) ask(ctx context.Context, input map[string]any) (string, error) {
	in, err := json.Marshal(input)
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, s.helper[0], s.helper[1:]...) //nolint:gosec // the benchmark's own
	cmd.Stdin, cmd.Stderr = bytes.NewReader(in), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", err
	}
	var answer struct {
		Configuration map[string]string `json:"configuration"`
	}
	if err := json.Unmarshal(out, &answer); err != nil {
		return "", err
	}
	settings, err := json.Marshal(answer.Configuration)
	return string(settings), err
}

func (s *stock) configure(ctx context.Context, client *provisionclient.ChoriaProvisionClient, node, settings, public string) error {
	request := client.Configure(settings).Token(s.config.Token)
	if s.key != nil {
		token, err := s.serverJWT(node, public)
		if err != nil {
			return err
		}
		request.ServerJwt(token)
	}
	result, err := request.Do(ctx)
	if err != nil {
		return err
	}
	if ok := result.Stats().OKCount(); ok != 1 {
		return fmt.Errorf("configure: %d good replies", ok)
	}
	_, err = client.Restart(s.config.Token).Splay(1).Do(ctx)
	return err
}

func (s *stock) serverJWT(node, public string) (string, error) {
	key, err := hex.DecodeString(public)
	if err != nil {
		return "", err
	}
	claims, err := tokens.NewServerClaims(node, []string{"choria"}, "choria", nil, nil, ed25519.PublicKey(key), "stock", 24*time.Hour)
	if err != nil {
		return "", err
	}
	if err := claims.AddChainIssuerData(s.signer, s.key); err != nil {
		return "", err
	}
	return tokens.SignToken(claims, s.key)
}
