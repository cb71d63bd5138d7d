package lab

import (
	"context"
	"crypto/ed25519"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/choria-io/tokens"
)

// issuer is the network rooted in an Organization Issuer: ed25519 keys and
// JWTs for everybody, protocol v2.
type issuer struct{ files }

func (n issuer) collective() string { return "choria" }

func (n issuer) makeKeys() error {
	root, err := newSeed(n.keys, "issuer")
	if err != nil {
		return err
	}
	cert, err := selfSigned("localhost", false)
	if err != nil {
		return err
	}
	return errors.Join(
		cert.save(n.keys, "broker"),
		n.makeBrokerToken(root),
		n.makeClientToken(root, provisionerName, tokens.ClientPermissions{ServerProvisioner: true, FleetManagement: true}),
		n.makeClientToken(root, verifierName, tokens.ClientPermissions{FleetManagement: true}),
		n.makeClientToken(root, recordsName, tokens.ClientPermissions{StreamsUser: true}),
	)
}

func (n issuer) makeBrokerToken(root ed25519.PrivateKey) error {
	key, err := newSeed(n.keys, "broker")
	if err != nil {
		return err
	}
	claims, err := tokens.NewServerClaims("localhost", []string{n.collective()}, organization,
		nil, nil, key.Public().(ed25519.PublicKey), "Choria Lab", validity)
	if err != nil {
		return err
	}
	token, err := tokens.SignToken(claims, root)
	return errors.Join(err, n.saveToken("broker", token))
}

func (n issuer) makeClientToken(root ed25519.PrivateKey, name string, may tokens.ClientPermissions) error {
	key, err := newSeed(n.keys, name)
	if err != nil {
		return err
	}
	claims, err := tokens.NewClientIDClaims("choria="+name, nil, organization, nil, "",
		"Choria Lab", validity, &may, key.Public().(ed25519.PublicKey))
	if err != nil {
		return err
	}
	if err := claims.AddOrgIssuerData(root); err != nil { // so that it can issue server tokens
		return err
	}
	token, err := tokens.SignToken(claims, root)
	return errors.Join(err, n.saveToken(name, token))
}

func (n issuer) saveToken(name, token string) error {
	return saveFiles(n.keys, map[string][]byte{name + ".jwt": []byte(token)})
}

// public is the issuer's key as configurations name it, in hex.
func (n issuer) public() (string, error) {
	text, err := os.ReadFile(n.key("issuer.public"))
	return strings.TrimSpace(string(text)), err
}

func (n issuer) trust() (settings, error) {
	public, err := n.public()
	return settings{
		"plugin.security.provider":                           "choria",
		"plugin.security.issuer.names":                       organization,
		"plugin.security.issuer." + organization + ".public": public,
	}, err
}

func (n issuer) startBroker(ctx context.Context) (broker, error) {
	trust, err := n.trust()
	if err != nil {
		return nil, err
	}
	return startChoriaBroker(ctx, n.dir, trust.with(settings{
		"plugin.security.choria.certificate": n.key("broker.pem"),
		"plugin.security.choria.key":         n.key("broker.key"),
	}).with(n.identity("broker")))
}

func (n issuer) identity(name string) settings {
	return settings{
		"plugin.security.provider":          "choria",
		"plugin.security.choria.token_file": n.key(name + ".jwt"),
		"plugin.security.choria.seed_file":  n.key(name + ".seed"),
	}
}

func (n issuer) client(name string) settings { return n.identity(name) }

func (n issuer) provisioningJWT(claims *tokens.ProvisioningClaims) (string, error) {
	root, err := readSeed(n.key("issuer.seed"))
	if err != nil {
		return "", err
	}
	return tokens.SignToken(claims, root)
}

func (n issuer) strangersJWT(claims *tokens.ProvisioningClaims) (string, error) {
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		return "", err
	}
	return tokens.SignToken(claims, key)
}

func (n issuer) provisioner() map[string]any {
	public, _ := n.public() // just written; an empty one would fail every node
	return map[string]any{
		"broker_provisioning_password": brokerPassword,
		"jwt_verify_cert":              public,
		"jwt_signing_key":              n.key(provisionerName + ".seed"),
		"jwt_signing_token":            n.key(provisionerName + ".jwt"),
		"features":                     map[string]any{"jwt": true, "ed25519": true},
	}
}

func (n issuer) answer(q question, s site) (map[string]any, error) {
	directory := nodeDir(n.dir, q.Identity)
	switch {
	case q.ED25519 != nil:
		directory = q.ED25519.Directory
	case !dryRun():
		return nil, errors.New("the input holds no ed25519_pubkey: turn on features.ed25519")
	}
	trust, err := n.trust()
	if err != nil {
		return nil, err
	}
	return answerWith(configuration(q.Identity, s, trust.with(settings{
		"plugin.security.choria.token_file": filepath.Join(directory, "server.jwt"),
		"plugin.security.choria.seed_file":  filepath.Join(directory, "server.seed"),
	}))), nil
}

// serverJWT and serverSeed are the files in which a node keeps its token and key.
const (
	serverJWT  = "server.jwt"
	serverSeed = "server.seed"
)

// verify holds key, token, chain of trust and connection against each other.
func (n issuer) verify(node string, seen connection) ([]string, error) {
	claims, err := n.verifyChain(filepath.Join(nodeDir(n.dir, node), serverJWT))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", serverJWT, err)
	}
	if err := tokenFits(claims, n.dir, node, seen); err != nil {
		return nil, err
	}
	return []string{fmt.Sprintf("%s of %s fits its own key, leads to the issuer and is who the broker let in", serverJWT, node)}, nil
}

// tokenFits returns how a node's token differs from the key beside it, its name
// or what the broker let in.
func tokenFits(claims *tokens.ServerClaims, dir, node string, seen connection) error {
	if fits, err := claims.IsMatchingSeedFile(filepath.Join(nodeDir(dir, node), serverSeed)); err != nil || !fits {
		return errors.Join(fmt.Errorf("%s does not fit the key in %s", serverJWT, serverSeed), err)
	}
	if claims.ChoriaIdentity != node {
		return fmt.Errorf("%s is that of %q", serverJWT, claims.ChoriaIdentity)
	}
	if seen.user != node {
		return fmt.Errorf("the broker let it in as %q", seen.user)
	}
	return nil
}

// verifyChain checks the signature by the issuer that the token names, and
// that the issuer vouched for that one.
func (n issuer) verifyChain(file string) (*tokens.ServerClaims, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	public, err := n.public()
	if err != nil {
		return nil, err
	}
	root, err := hex.DecodeString(public)
	if err != nil {
		return nil, err
	}
	return tokens.ParseServerToken(string(text), ed25519.PublicKey(root))
}
