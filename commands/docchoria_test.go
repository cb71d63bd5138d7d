package commands

import (
	"crypto/ed25519"
	"encoding/hex"
	"fmt"
	"os"
	"time"

	"github.com/choria-io/fisk"
	"github.com/choria-io/go-choria/choria"
	"github.com/choria-io/tokens"
)

// tokenMaker stands for the choria program's commands of docs/getting-started.md:
// it has their arguments and flags and makes their tokens by the same library, so
// that a broker and nodes judge what the documented flags amount to.
type tokenMaker struct {
	file, key, identity, publicKey, token string
	urls                                  []string
	issuer, provisioner, byDefault, v2    bool
	validity                              time.Duration
}

// choriaMain is the main of that program.
func choriaMain() {
	var m tokenMaker
	cli := fisk.New("choria", "Makes tokens")
	jwt := cli.Command("jwt", "")

	keys := jwt.Command("keys", "")
	keys.Arg("seed-file", "").Required().StringVar(&m.file)
	keys.Arg("public", "").Required().StringVar(&m.publicKey)

	client := jwt.Command("client", "")
	client.Arg("file", "").Required().StringVar(&m.file)
	client.Arg("identity", "").Required().StringVar(&m.identity)
	client.Arg("signing-key", "").Required().StringVar(&m.key)
	client.Flag("public-key", "").StringVar(&m.publicKey)
	client.Flag("issuer", "").UnNegatableBoolVar(&m.issuer)
	client.Flag("server-provisioner", "").UnNegatableBoolVar(&m.provisioner)
	client.Flag("validity", "").Default("1h").DurationVar(&m.validity)

	provisioning := jwt.Command("provisioning", "")
	provisioning.Arg("file", "").Required().StringVar(&m.file)
	provisioning.Arg("signing-key", "").Required().StringVar(&m.key)
	provisioning.Flag("token", "").StringVar(&m.token)
	provisioning.Flag("urls", "").StringsVar(&m.urls)
	provisioning.Flag("default", "").UnNegatableBoolVar(&m.byDefault)
	provisioning.Flag("protocol-v2", "").UnNegatableBoolVar(&m.v2)

	commands := map[string]func() error{"jwt keys": m.makeKeys, "jwt client": m.makeClient, "jwt provisioning": m.makeProvisioning}
	if err := commands[fisk.MustParse(cli.Parse(os.Args[1:]))](); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func (m *tokenMaker) makeKeys() error {
	public, _, err := choria.Ed25519KeyPairToFile(m.file)
	if err != nil {
		return err
	}
	return os.WriteFile(m.publicKey, []byte(hex.EncodeToString(public)), 0o600)
}

// makeClient gives fleet management to each provisioner and takes it from each
// other token that signs, as the program does.
func (m *tokenMaker) makeClient() error {
	public, err := hex.DecodeString(m.publicKey)
	if err != nil {
		return err
	}
	may := &tokens.ClientPermissions{ServerProvisioner: m.provisioner, FleetManagement: m.provisioner || !m.issuer}
	claims, err := tokens.NewClientIDClaims(m.identity, nil, "choria", nil, "", "", m.validity, may, ed25519.PublicKey(public))
	if err != nil {
		return err
	}
	if m.issuer {
		_, key, err := choria.Ed25519KeyPairFromSeedFile(m.key)
		if err != nil {
			return err
		}
		if err := claims.AddOrgIssuerData(key); err != nil {
			return err
		}
	}
	return tokens.SaveAndSignTokenWithKeyFile(claims, m.key, m.file, 0o600)
}

func (m *tokenMaker) makeProvisioning() error {
	claims, err := tokens.NewProvisioningClaims(false, m.byDefault, m.token, "", "", m.urls, "", "", "", "choria", "", 365*24*time.Hour)
	if err != nil {
		return err
	}
	claims.ProtoV2 = m.v2
	return tokens.SaveAndSignTokenWithKeyFile(claims, m.key, m.file, 0o600)
}
