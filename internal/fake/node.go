package fake

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"path/filepath"
	"strings"
	"sync"

	"choria-provision/provision"

	"github.com/choria-io/go-choria/choria"
	wire "github.com/choria-io/go-choria/providers/agent/mcorpc/golang/provision"
)

// node is the state of one fleet node. What it answers follows
// providers/agent/mcorpc/golang/provision of go-choria.
type node struct {
	name string
	site *Site

	mu         sync.Mutex
	ecdh       []byte
	seed       ed25519.PrivateKey
	configured wire.ConfigureRequest
	times      int
	left       bool
}

func (n *node) answer(action string, in json.RawMessage) provision.Reply {
	n.mu.Lock()
	defer n.mu.Unlock()
	if action == "rpcutil#inventory" {
		return reply(n.site.inventory(n.name))
	}
	var asked struct {
		Token string `json:"token"`
	}
	if err := json.Unmarshal(in, &asked); err != nil {
		return refuse("Could not parse request data: %v", err)
	}
	if asked.Token != n.site.Token {
		return refuse("Incorrect provision token supplied")
	}
	switch action {
	case "choria_provision#jwt":
		return n.jwt()
	case "choria_provision#gen25519":
		return n.gen25519(in)
	case "choria_provision#gencsr":
		return n.gencsr()
	case "choria_provision#configure":
		return n.configure(in)
	case "choria_provision#release_update":
		return reply(wire.Reply{Message: "Restarting Choria Server after 2s"})
	case "choria_provision#restart":
		n.left = true
		return reply(wire.Reply{Message: "Restarting Choria Server after 2s"})
	case "choria_provision#shutdown":
		return reply(wire.Reply{Message: "Shutting Choria Server down after 1s"})
	default:
		return refuse("Unknown action %s", action)
	}
}

func (n *node) jwt() provision.Reply {
	private, public, err := choria.ECDHKeyPair()
	if err != nil {
		return refuse("Could not calculate EDCH keys: %v", err)
	}
	n.ecdh = private
	return reply(wire.JWTReply{JWT: n.site.JWT, ECDHPublic: hex.EncodeToString(public)})
}

func (n *node) gen25519(in json.RawMessage) provision.Reply {
	var request wire.ED25519Request
	if err := json.Unmarshal(in, &request); err != nil {
		return refuse("Could not parse request data: %v", err)
	}
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return refuse("Could not create keypair: %v", err)
	}
	n.seed = private
	return reply(wire.ED25519Reply{
		PublicKey: hex.EncodeToString(public),
		Signature: hex.EncodeToString(ed25519.Sign(private, []byte(request.Nonce))),
		Directory: n.directory(),
	})
}

// nodeKey is one RSA key for all: making one takes longer than everything else
// that a node does.
//
//nolint:gochecknoglobals // made once for the process, read only from then on
var nodeKey = sync.OnceValues(func() (*rsa.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, 2048) })

func (n *node) gencsr() provision.Reply {
	key, err := nodeKey()
	if err != nil {
		return refuse("Could not create private key: %v", err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: n.name}}, key)
	if err != nil {
		return refuse("Could not create CSR: %v", err)
	}
	return reply(wire.CSRReply{
		CSR:       string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})),
		PublicKey: string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: x509.MarshalPKCS1PublicKey(&key.PublicKey)})),
		SSLDir:    filepath.Join(n.directory(), "ssl"),
	})
}

func (n *node) configure(in json.RawMessage) provision.Reply {
	var request wire.ConfigureRequest
	if err := json.Unmarshal(in, &request); err != nil {
		return refuse("Could not parse request data: %v", err)
	}
	var settings map[string]string
	switch err := json.Unmarshal([]byte(request.Configuration), &settings); {
	case err != nil:
		return refuse("Could not decode configuration data: %v", err)
	case len(settings) == 0:
		return refuse("Did not receive any configuration to write, cannot write a empty configuration file")
	}
	for name := range request.ActionPolicies {
		if !strings.HasSuffix(name, ".policy") {
			return refuse("expected %q to have .policy extension", name)
		}
	}
	n.configured = request
	n.times++
	return reply(wire.Reply{Message: "Wrote lines"})
}

func (n *node) directory() string { return "/etc/choria" }

func reply(data any) provision.Reply {
	encoded, err := json.Marshal(data)
	if err != nil {
		return refuse("%v", err)
	}
	return provision.Reply{OK: true, Data: encoded}
}
