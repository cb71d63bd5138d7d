package provision

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

// Trial is what one answer of the helper, asked for without a node, is worth.
type Trial struct {
	Answer        Answer
	Warnings      []string
	Upgrading     bool              // the node would be sent to another release, and asked about again after it
	Configuration map[string]string // what would be sent, secrets masked
	Took          time.Duration
}

// TryHelper asks the helper and does with its answer all that a run does before
// anything is sent: it is checked, a server JWT is issued and a private key
// encrypted when the features and the answer ask for it. An answer whose upgrade
// ends the sequence is checked for what comes after it, too, but only warned
// of. The Trial is as full as the error lets it be.
func TryHelper(ctx context.Context, h Helper, in HelperInput, c *config.Config) (Trial, error) {
	started := time.Now()
	answer, err := h.Answer(ctx, in)
	trial := Trial{Answer: answer, Took: time.Since(started)}
	if err != nil || answer.Defer || answer.Shutdown {
		return trial, err
	}
	trial.Configuration = maskConfiguration(answer.Configuration)
	held, err := trialContext(in, c)
	if err != nil {
		return trial, err
	}
	if trial.Upgrading, err = tryUpgrade(answer, in, c); err != nil {
		return trial, err
	}
	if !trial.Upgrading {
		return trial, trial.use(held)
	}
	if len(answer.Configuration) > 0 {
		if err := trial.use(held); err != nil {
			trial.Warnings = append(trial.Warnings, fmt.Sprintf("after the upgrade to %s this answer would be refused: %v", answer.Upgrade, err))
		}
	}
	held.UpgradeOnly = true
	warnings, err := answer.check(held)
	trial.Warnings = append(trial.Warnings, warnings...)
	return trial, err
}

// use does what is done with an answer that configures the node.
func (t *Trial) use(held answerContext) (err error) {
	if t.Warnings, err = t.Answer.check(held); err != nil {
		return err
	}
	if held.Config.Features.ED25519 && held.ED25519 != nil {
		_, warnings, err := trust.IssueServerJWT(trust.ServerJWTRequest{
			Identity: held.Identity, PublicKey: held.ED25519, Config: held.Config, Settings: t.Answer, Claims: t.Answer.ServerClaims,
		})
		t.Warnings = append(t.Warnings, warnings...)
		if err != nil {
			return err
		}
	}
	if t.Answer.Key != "" {
		_, _, err = trust.EncryptKey(t.Answer.Key, hex.EncodeToString(sampleECDH()))
	}
	return err
}

// tryUpgrade reports whether the node of this input is sent to another release.
func tryUpgrade(a Answer, in HelperInput, c *config.Config) (upgrading bool, err error) {
	if !c.Features.Upgrades || a.Upgrade == "" {
		return false, nil
	}
	var found facts
	if err := json.Unmarshal([]byte(in.Inventory), &found); err != nil {
		return false, fmt.Errorf("%w: inventory of the input: %w", ErrNonsense, err)
	}
	decision, err := decideUpgrade(found.Version, a.Upgrade, found.Upgradable, c)
	if err != nil && c.UpgradesOptional {
		return false, nil
	}
	return decision.Needed, err
}

// sampleECDH stands for a node's ECDH key: X25519 takes any 32 bytes that are
// not one of a few special points, such as this, its base point.
func sampleECDH() []byte {
	point := make([]byte, 32)
	point[0] = 9
	return point
}

func trialContext(in HelperInput, c *config.Config) (answerContext, error) {
	held := answerContext{Identity: in.Identity, Config: c}
	if in.CSR != nil {
		request, err := trust.ParseCSR(in.CSR.CSR)
		if err != nil {
			return held, fmt.Errorf("%w: csr of the input: %w", trust.ErrCSR, err)
		}
		held.CSR, held.SSLDir = request, in.CSR.SSLDir
	}
	if in.ED25519 != nil {
		key, err := trust.ParsePublicKey(in.ED25519.PublicKey)
		if err != nil {
			return held, fmt.Errorf("%w: ed25519_pubkey of the input: its public_key %w", trust.ErrKeyProof, err)
		}
		held.ED25519, held.SSLDir = key, in.ED25519.Directory
	}
	return held, nil
}

// SampleHelperInput makes up a node: what go-choria's agents would answer for
// the features that are on, with keys made on the spot.
func SampleHelperInput(identity string, c *config.Config) (HelperInput, error) {
	in := HelperInput{Identity: identity}
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

func sampleCSR(identity string) (*HelperCSR, error) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, err
	}
	request, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: identity}}, key)
	if err != nil {
		return nil, err
	}
	public := x509.MarshalPKCS1PublicKey(&key.PublicKey)
	return &HelperCSR{
		CSR:       string(pem.EncodeToMemory(&pem.Block{Type: trust.CSRBlock, Bytes: request})),
		PublicKey: string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})), // as the agent labels it
		SSLDir:    "/etc/choria/ssl",
	}, nil
}

func sampleKey() (*HelperED25519, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	nonce, err := choria.NewRequestID()
	if err != nil {
		return nil, err
	}
	return &HelperED25519{
		PublicKey: hex.EncodeToString(public),
		Directory: "/etc/choria",
		Signature: hex.EncodeToString(ed25519.Sign(private, []byte(nonce))),
	}, nil
}
