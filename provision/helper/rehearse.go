package helper

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"time"

	"github.com/choria-io/go-choria/choria"
	"github.com/choria-io/go-choria/providers/agent/mcorpc/golang/rpcutil"
	"github.com/choria-io/tokens"

	"choria-provision/config"
	"choria-provision/provision/trust"
)

// Rehearsal is the result of one answer that was requested without a node.
type Rehearsal struct {
	Answer        Answer
	Warnings      []string
	Upgrading     bool              // the node would be upgraded first, and the helper consulted again
	Configuration map[string]string // as it would be sent, secrets redacted
	Took          time.Duration
}

// RehearseOptions hold what a rehearsal shares with a run.
type RehearseOptions struct {
	Config *config.Config
	Valid  func(identity string) bool // as in CheckInput
	// Upgrading decides whether the node of this input would be upgraded.
	Upgrading func(inventory, wanted string, c *config.Config) (bool, error)
}

// Rehearse consults the helper and treats its answer as a run does before it
// sends anything: it checks it, issues a server JWT and encrypts a private key as
// far as features and answer require them. If an upgrade ends the sequence, it
// checks the rest of the answer, too, and only warns. The Rehearsal is as
// complete as the error permits.
func Rehearse(ctx context.Context, h Helper, in Input, o RehearseOptions) (Rehearsal, error) {
	started := time.Now()
	answer, err := h.Answer(ctx, in)
	r := Rehearsal{Answer: answer, Took: time.Since(started)}
	if err != nil || answer.Defer || answer.Shutdown {
		return r, err
	}
	r.Configuration = Redacted(answer.Configuration)
	against, err := o.checkInput(in)
	if err != nil {
		return r, err
	}
	if o.Config.Features.Upgrades && answer.Upgrade != "" {
		if r.Upgrading, err = o.Upgrading(in.Inventory, answer.Upgrade, o.Config); err != nil {
			return r, err
		}
	}
	if !r.Upgrading {
		return r, r.use(against)
	}
	if len(answer.Configuration) > 0 {
		if err := r.use(against); err != nil {
			r.Warnings = append(r.Warnings, fmt.Sprintf("after the upgrade to %s this answer would be refused: %v", answer.Upgrade, err))
		}
	}
	against.UpgradeOnly = true
	warnings, err := answer.Check(against)
	r.Warnings = append(r.Warnings, warnings...)
	return r, err
}

// use does what a run does with an answer that configures the node.
func (r *Rehearsal) use(against CheckInput) (err error) {
	if r.Warnings, err = r.Answer.Check(against); err != nil {
		return err
	}
	if against.Config.Features.ED25519 && against.ED25519 != nil {
		_, warnings, err := trust.IssueServerJWT(trust.ServerJWTRequest{
			Identity: against.Identity, PublicKey: against.ED25519, Config: against.Config, Settings: r.Answer, Claims: r.Answer.ServerClaims,
		})
		r.Warnings = append(r.Warnings, warnings...)
		if err != nil {
			return err
		}
	}
	if r.Answer.Key != "" {
		_, _, err = trust.EncryptKey(r.Answer.Key, hex.EncodeToString(sampleECDH()))
	}
	return err
}

// sampleECDH stands for a node's ECDH key: X25519 accepts any 32 bytes except a
// few special points; this is its base point.
func sampleECDH() []byte {
	point := make([]byte, 32)
	point[0] = 9
	return point
}

func (o RehearseOptions) checkInput(in Input) (CheckInput, error) {
	against := CheckInput{Identity: in.Identity, Config: o.Config, Valid: o.Valid}
	if in.CSR != nil {
		request, err := trust.ParseCSR(in.CSR.CSR)
		if err != nil {
			return against, fmt.Errorf("%w: csr of the input: %w", trust.ErrCSR, err)
		}
		against.CSR, against.SSLDir = request, in.CSR.SSLDir
	}
	if in.ED25519 != nil {
		key, err := trust.ParsePublicKey(in.ED25519.PublicKey)
		if err != nil {
			return against, fmt.Errorf("%w: ed25519_pubkey of the input: its public_key %w", trust.ErrKeyProof, err)
		}
		against.ED25519, against.SSLDir = key, in.ED25519.Directory
	}
	return against, nil
}

// SampleInput returns the input of an invented node: what go-choria's agents
// would answer for the enabled features, with fresh keys.
func SampleInput(identity string, c *config.Config) (Input, error) {
	in := Input{Identity: identity}
	facts, err := json.Marshal(map[string]string{"hostname": identity})
	if err != nil {
		return in, err
	}
	inventory, err := json.Marshal(sampleInventory(facts))
	if err != nil {
		return in, err
	}
	in.Inventory = string(inventory)
	if c.Features.PKI {
		if in.CSR, err = sampleCSR(identity); err != nil {
			return in, err
		}
	}
	if c.Features.ED25519 {
		if in.ED25519, err = sampleKey(); err != nil {
			return in, err
		}
	}
	if c.Features.JWT {
		if in.JWT, err = sampleClaims(c.Features); err != nil {
			return in, err
		}
	}
	return in, nil
}

func sampleClaims(on config.Features) (json.RawMessage, error) {
	claims, err := tokens.NewProvisioningClaims(true, true, "", "", "", []string{"nats://broker.example.net:4222"},
		"", "", "", "choria", trust.TokenIssuer, config.Default().ServerJWTValidity.Duration)
	if err != nil {
		return nil, err
	}
	claims.ProtoV2, claims.AllowUpdate, claims.Extensions = on.ED25519, on.Upgrades, tokens.MapClaims{}
	payload, err := json.Marshal(claims)
	if err != nil {
		return nil, err
	}
	return selectClaims(payload)
}

func sampleInventory(facts json.RawMessage) rpcutil.InventoryReply {
	return rpcutil.InventoryReply{
		Agents:         []string{"choria_provision", "choria_util", "discovery", "rpcutil"},
		Classes:        []string{},
		Collectives:    []string{"provisioning"},
		DataPlugins:    []string{},
		Facts:          facts,
		Machines:       []rpcutil.MachineState{},
		MainCollective: "provisioning",
		Version:        choria.BuildInfo().Version(),
		Upgradable:     true,
	}
}

func sampleCSR(identity string) (*InputCSR, error) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, err
	}
	request, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: identity}}, key)
	if err != nil {
		return nil, err
	}
	public := x509.MarshalPKCS1PublicKey(&key.PublicKey)
	return &InputCSR{
		CSR:       string(pem.EncodeToMemory(&pem.Block{Type: trust.CSRBlock, Bytes: request})),
		PublicKey: string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})), // as the agent labels it
		SSLDir:    "/etc/choria/ssl",
	}, nil
}

func sampleKey() (*InputED25519, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	nonce, err := choria.NewRequestID()
	if err != nil {
		return nil, err
	}
	return &InputED25519{
		PublicKey: hex.EncodeToString(public),
		Directory: "/etc/choria",
		Signature: hex.EncodeToString(ed25519.Sign(private, []byte(nonce))),
	}, nil
}
