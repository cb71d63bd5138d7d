package lab

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
)

// question is what a helper reads of its input.
type question struct {
	Identity string `json:"identity"`
	CSR      *struct {
		CSR    string `json:"csr"`
		SSLDir string `json:"ssldir"`
	} `json:"csr"`
	ED25519 *struct {
		Directory string `json:"directory"`
	} `json:"ed25519_pubkey"`
}

// dryRun says that nothing was asked of the node that would change it: there is
// neither key nor request yet.
func dryRun() bool { return os.Getenv("PROVISION_DRY_RUN") == "1" }

// issued is what the sample helper gave to a node, for Verify.
type issued struct {
	Key string `json:"key"`
}

// runHelper is the sample helper: it answers each node with a configuration
// for the lab's own network, or as the behaviour file says.
func runHelper(dir string, in io.Reader, out io.Writer) error {
	var q question
	if err := json.NewDecoder(in).Decode(&q); err != nil {
		return fmt.Errorf("reading the input: %w", err)
	}
	if q.Identity == "" {
		return fmt.Errorf("the input names no identity")
	}
	site, model, err := loadSite(dir)
	if err != nil {
		return err
	}
	behaviour, err := behaviourOf(dir, q.Identity)
	if err != nil {
		return err
	}
	text, err := behaviour.reply(q, site, model)
	if err != nil {
		return err
	}
	if os.Getenv("PROVISION_DRY_RUN") == "" {
		if err := saveIssued(dir, q.Identity, text); err != nil {
			return err
		}
	}
	_, err = out.Write(text)
	return err
}

// configuration is what every server of this lab needs, whatever the network.
func configuration(identity string, s site, more settings) settings {
	return settings{
		"identity":                       identity,
		"loglevel":                       "info",
		"plugin.choria.server.provision": "0", // else provisioning.jwt sends it back at once
		"plugin.choria.middleware_hosts": s.Broker,
		"plugin.choria.use_srv":          "false",
		"rpcauthorization":               "0", // on by default, and without policies nothing is allowed
	}.with(more)
}

func answerWith(s settings) map[string]any {
	return map[string]any{"configuration": maps.Clone(s)}
}

func saveIssued(dir, node string, answer []byte) error {
	var given issued
	_ = json.Unmarshal(answer, &given) // an answer that is none gave nothing
	text, err := json.Marshal(given)
	if err != nil {
		return err
	}
	return os.WriteFile(issuedFile(dir, node), text, 0o600)
}

func issuedFile(dir, node string) string {
	return filepath.Join(dir, "issued", filepath.Base(node)+".json")
}

// loadIssued returns nothing for a node that another helper answered.
func loadIssued(dir, node string) (given issued, err error) {
	text, err := os.ReadFile(issuedFile(dir, node))
	if os.IsNotExist(err) {
		return given, nil
	}
	if err != nil {
		return given, err
	}
	return given, json.Unmarshal(text, &given)
}
