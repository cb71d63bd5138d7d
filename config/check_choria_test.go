package config

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/choria-io/tokens"
)

// keyOf makes a key pair's private half for tests.
func keyOf(t testing.TB, kind string) crypto.Signer {
	t.Helper()
	var key crypto.Signer
	var err error
	if kind == "ecdsa" {
		key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	} else {
		key, err = rsa.GenerateKey(rand.Reader, 1024)
	}
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func pkcs8(t testing.TB, key crypto.Signer) []byte {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

// certificateOf makes a self-signed certificate, in DER.
func certificateOf(t testing.TB, key crypto.Signer, from, until time.Time) []byte {
	t.Helper()
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "me.mcollective"}, NotBefore: from, NotAfter: until}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

func pemOf(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

// provisionerToken is a client JWT of the key of seed fill.
func provisionerToken(t testing.TB, fill byte, may bool) string {
	t.Helper()
	claims, err := tokens.NewClientIDClaims("choria=provisioner", nil, "choria", nil, "", "choria", time.Hour,
		&tokens.ClientPermissions{ServerProvisioner: may, FleetManagement: true}, seedOf(fill).Public().(ed25519.PublicKey))
	if err != nil {
		t.Fatal(err)
	}
	token, err := tokens.SignToken(claims, seedOf('i'))
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// credentials writes what a Choria client configuration can name, right and
// wrong, and returns the directory.
func credentials(t testing.TB) string {
	t.Helper()
	dir := site(t)
	now := time.Now()
	first, second, elliptic := keyOf(t, "rsa"), keyOf(t, "rsa"), keyOf(t, "ecdsa")
	certificate := certificateOf(t, first, now.Add(-time.Hour), now.Add(time.Hour))
	//lint:ignore SA1019 keys in this form are still found
	locked, err := x509.EncryptPEMBlock(rand.Reader, "RSA PRIVATE KEY", pkcs8(t, first), []byte("x"), x509.PEMCipherAES256)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"own.pem":      pemOf("CERTIFICATE", certificate),
		"own.key":      pemOf("PRIVATE KEY", pkcs8(t, first)),
		"own.pkcs1":    pemOf("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(first.(*rsa.PrivateKey))),
		"another.key":  pemOf("PRIVATE KEY", pkcs8(t, second)),
		"locked.key":   string(pem.EncodeToMemory(locked)),
		"locked8.key":  pemOf("ENCRYPTED PRIVATE KEY", []byte{0x30, 0}),
		"broken.key":   pemOf("PRIVATE KEY", []byte{0x30, 0}),
		"broken.pem":   pemOf("CERTIFICATE", []byte{0x30, 0}),
		"own.der":      string(certificate),
		"own.key.der":  string(pkcs8(t, first)),
		"expired.pem":  pemOf("CERTIFICATE", certificateOf(t, first, now.Add(-2*time.Hour), now.Add(-time.Hour))),
		"early.pem":    pemOf("CERTIFICATE", certificateOf(t, first, now.Add(time.Hour), now.Add(2*time.Hour))),
		"elliptic.key": pemOf("PRIVATE KEY", pkcs8(t, elliptic)),
		"elliptic.pem": pemOf("CERTIFICATE", certificateOf(t, elliptic, now.Add(-time.Hour), now.Add(time.Hour))),
		"own.jwt":      provisionerToken(t, 'p', true),
		"modest.jwt":   provisionerToken(t, 'p', false),
		"another.jwt":  provisionerToken(t, 'o', true),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestFilesOfTheChoriaConfigurationAreRead(t *testing.T) {
	t.Parallel()
	dir := credentials(t)
	const file, choria = "plugin.security.file.", "plugin.security.choria."
	good := map[string]map[string]string{
		"file":   {file + "certificate": "own.pem", file + "key": "own.key", file + "ca": "own.pem"},
		"choria": {choria + "token_file": "own.jwt", choria + "seed_file": "seed"},
	}
	tests := []struct {
		name, provider string
		set            map[string]string
		fatal          bool
		want           string // what the only problem says; empty: there is none
	}{
		{"good files", "file", nil, false, ""},
		{"a key in PKCS #1", "file", map[string]string{file + "key": "own.pkcs1"}, false, ""},
		{"no certificate file", "file", map[string]string{file + "certificate": "none.pem"}, true, "certificate: DIR/none.pem does not exist"},
		{"no key file", "file", map[string]string{file + "key": "none.key"}, true, "key: DIR/none.key does not exist"},
		{"no CA file", "file", map[string]string{file + "ca": "none.pem"}, true, "ca: DIR/none.pem does not exist"},
		{"another's key", "file", map[string]string{file + "key": "another.key"}, true, "key: DIR/another.key is not the key of the certificate in DIR/own.pem"},
		{"a key with passphrase", "file", map[string]string{file + "key": "locked.key"}, true, "key: DIR/locked.key is encrypted"},
		{"the same in PKCS #8", "file", map[string]string{file + "key": "locked8.key"}, true, "key: DIR/locked8.key is encrypted"},
		{"a broken key", "file", map[string]string{file + "key": "broken.key"}, true, "key: DIR/broken.key holds a private key that cannot be read"},
		{"a certificate for a key", "file", map[string]string{file + "key": "own.pem"}, true, "key: DIR/own.pem holds no private key"},
		{"a key in DER", "file", map[string]string{file + "key": "own.key.der"}, true, "key: DIR/own.key.der is a private key in DER"},
		{"a certificate in DER", "file", map[string]string{file + "certificate": "own.der"}, true, "certificate: DIR/own.der is a certificate in DER"},
		{"a broken certificate", "file", map[string]string{file + "certificate": "broken.pem"}, true, "certificate: DIR/broken.pem holds a certificate that cannot be read"},
		{"an expired certificate", "file", map[string]string{file + "certificate": "expired.pem"}, false, "certificate: DIR/expired.pem expired on "},
		{"a certificate of the future", "file", map[string]string{file + "certificate": "early.pem"}, false, "certificate: DIR/early.pem is not valid before "},
		{"an empty CA", "file", map[string]string{file + "ca": "empty"}, true, "ca: DIR/empty holds no certificate"},
		{"a CA in DER", "file", map[string]string{file + "ca": "own.der"}, true, "ca: DIR/own.der is a certificate in DER"},
		{"a directory", "file", map[string]string{file + "ca": "."}, true, "ca: DIR is not a file"},
		{"a key that cannot sign requests", "file", map[string]string{file + "certificate": "elliptic.pem", file + "key": "elliptic.key"}, true, "key: DIR/elliptic.key is no RSA key"},
		{"an unused file that is there", "file", map[string]string{choria + "ca": "own.pem"}, false, ""},
		{"a file of another provider", "file", map[string]string{choria + "ca": "none.pem"}, false, "choria.ca: DIR/none.pem does not exist, and plugin.security.provider is file"},
		{"good token", "choria", nil, false, ""},
		{"good token and TLS files", "choria", map[string]string{choria + "certificate": "elliptic.pem", choria + "key": "elliptic.key", choria + "ca": "own.pem"}, false, ""},
		{"no token file", "choria", map[string]string{choria + "token_file": "none.jwt"}, true, "token_file: DIR/none.jwt does not exist"},
		{"no seed file", "choria", map[string]string{choria + "seed_file": "none.seed"}, true, "seed_file: DIR/none.seed does not exist"},
		{"another's token", "choria", map[string]string{choria + "token_file": "another.jwt"}, true, "seed_file: belongs to another key than the token in DIR/another.jwt"},
		{"a token that may not", "choria", map[string]string{choria + "token_file": "modest.jwt"}, false, "token_file: DIR/modest.jwt does not permit provisioning"},
		{"no token", "choria", map[string]string{choria + "token_file": "seed"}, true, "token_file: DIR/seed holds no client token"},
		{"an expired token", "choria", map[string]string{choria + "token_file": "expired.jwt"}, false, "token_file: DIR/expired.jwt expired on 2001-02-03"},
		{"a short seed", "choria", map[string]string{choria + "seed_file": "short"}, true, "seed_file: DIR/short holds 40 hex digits"},
		{"a CA that is not there", "choria", map[string]string{choria + "ca": "none.pem"}, false, "ca: DIR/none.pem does not exist: the broker's certificate is not verified"},
		{"another's TLS key", "choria", map[string]string{choria + "certificate": "own.pem", choria + "key": "another.key"}, true, "key: DIR/another.key is not the key of the certificate in DIR/own.pem"},
	}
	cfg, _ := load(t, "helper: DIR/helper\ntoken: x\nbroker_provisioning_password: x\n")
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			lines := []string{"identity = me", "plugin.security.provider = " + test.provider}
			settings := map[string]string{}
			for _, more := range []map[string]string{good[test.provider], test.set} {
				for key, name := range more {
					settings[key] = filepath.Join(dir, name)
				}
			}
			for key, path := range settings {
				lines = append(lines, key+" = "+path)
			}
			_, problems, err := cfg.Choria(client(t, lines...), environment("USER", "me"))
			var invalid *Invalid
			if errors.As(err, &invalid) {
				problems = invalid.Problems
			}
			if (err != nil) != test.fatal {
				t.Errorf("got error %v, want one: %v", err, test.fatal)
			}
			said := strings.ReplaceAll((&Invalid{problems}).Error(), dir, "DIR")
			switch {
			case test.want == "" && len(problems) > 0, test.want != "" && (len(problems) != 1 || !strings.Contains(said, test.want)):
				t.Errorf("got %q, want %q alone", said, test.want)
			case test.want != "" && problems[0].Line < 3:
				t.Errorf("got line %d, want that of the key", problems[0].Line)
			}
		})
	}
}

func TestBrokerAddressesAreParsed(t *testing.T) {
	t.Parallel()
	cfg, _ := load(t, "helper: DIR/helper\ntoken: x\nbroker_provisioning_password: x\n")
	tests := map[string]string{
		"nats://broker.example.net:4222":          "",
		"broker.example.net:4222, nats://[::1]:1": "",
		"nats://[::1]:4222":                       "",
		"broker.example.net":                      `"broker.example.net" is no broker's address; write the port too, such as broker.example.net:4222`,
		"::1":                                     `"::1" is no broker's address; write nats://[::1]:4222`,
		"nats://broker:port":                      `is no broker's address; write HOST:PORT`,
	}
	for hosts, want := range tests {
		_, _, err := cfg.Choria(client(t, "identity = me", "plugin.security.provider = puppet", "plugin.choria.middleware_hosts = "+hosts), environment("USER", "me"))
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: got %v, want no error", hosts, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), "client.conf:3:1: error: plugin.choria.middleware_hosts: ") || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: got %v, want an error with %q", hosts, err, want)
		}
	}
}

func TestAnonymousTLSNeedsNoFiles(t *testing.T) {
	t.Parallel()
	cfg, _ := load(t, "helper: DIR/helper\ntoken: x\nbroker_provisioning_password: x\n")
	file := client(t, "identity = me", "plugin.security.provider = file", "plugin.security.file.key = /nonexistent.key",
		"plugin.security.client_anon_tls = true", "plugin.choria.security.request_signer.url = https://signer.example.net")
	if _, warnings, err := cfg.Choria(file, environment("USER", "me")); err != nil || len(warnings) > 0 {
		t.Errorf("got %v and error %v, want nothing to say", warnings, err)
	}
}
