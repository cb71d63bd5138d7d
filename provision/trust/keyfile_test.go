package trust

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/choria-io/tokens"
	gojwt "github.com/golang-jwt/jwt/v5"
	"golang.org/x/sys/unix"

	"choria-provision/config"
)

// keyFiles are the files of one test, by kind.
type keyFiles struct {
	dir          string
	seed         ed25519.PrivateKey // of hex.seed
	issuer       ed25519.PrivateKey
	provisioning map[string]any // kind of verify key to the private key that signs for it
}

func (k *keyFiles) path(kind string) string { return filepath.Join(k.dir, kind) }

func (k *keyFiles) add(t *testing.T, kind, text string) {
	t.Helper()
	if err := os.WriteFile(k.path(kind), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func blockOf(label string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: label, Bytes: der}))
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// shortRSA is a public key that no verification accepts.
func shortRSA() *rsa.PublicKey {
	return &rsa.PublicKey{N: new(big.Int).SetBit(big.NewInt(1), 511, 1), E: 65537}
}

// newKeyFiles writes one file of every kind that a site may name.
func newKeyFiles(t *testing.T) *keyFiles {
	t.Helper()
	_, seed := newKey(t)
	_, issuer := newKey(t)
	k := &keyFiles{dir: t.TempDir(), seed: seed, issuer: issuer}
	key, public := rsaKey(), hex.EncodeToString(seed.Public().(ed25519.PublicKey))
	certificate := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "signer"}, NotAfter: time.Now().Add(time.Hour)}
	curve := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	//lint:ignore SA1019 a site's openssl may have written it
	encrypted := must(x509.EncryptPEMBlock(rand.Reader, "RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(key), []byte("x"), x509.PEMCipherAES256))
	for kind, text := range map[string]string{
		"hex.seed":            hex.EncodeToString(seed.Seed()) + "\n",
		"hex.seed.upper":      strings.ToUpper(hex.EncodeToString(seed.Seed())),
		"hex.public":          public + "\r\n",
		"hex.public.upper":    strings.ToUpper(public),
		"hex.short":           public[:62],
		"hex.long":            public + public,
		"hex.twice":           public + "\n" + public + "\n",
		"hex.marked":          "\xef\xbb\xbf" + public,
		"hex.utf16":           "\xff\xfe" + strings.Join(strings.Split(public, ""), "\x00") + "\x00",
		"pkcs1":               rsaPEM(key),
		"pkcs8.rsa":           pkcs8PEM(t, key),
		"pkcs8.ed25519":       pkcs8PEM(t, seed),
		"sec1":                blockOf("EC PRIVATE KEY", must(x509.MarshalECPrivateKey(curve))),
		"encrypted":           string(pem.EncodeToMemory(encrypted)),
		"encrypted.pkcs8":     blockOf("ENCRYPTED PRIVATE KEY", []byte{0x30, 0}),
		"der":                 string(x509.MarshalPKCS1PrivateKey(key)),
		"public.pkix":         publicPEM(t, key),
		"public.pkcs1":        blockOf("RSA PUBLIC KEY", x509.MarshalPKCS1PublicKey(&key.PublicKey)),
		"public.ed25519":      blockOf("PUBLIC KEY", must(x509.MarshalPKIXPublicKey(seed.Public()))),
		"public.der":          string(must(x509.MarshalPKIXPublicKey(&key.PublicKey))),
		"public.512":          blockOf("PUBLIC KEY", must(x509.MarshalPKIXPublicKey(shortRSA()))),
		"certificate":         blockOf("CERTIFICATE", must(x509.CreateCertificate(rand.Reader, certificate, certificate, key.Public(), key))),
		"certificate.ed25519": blockOf("CERTIFICATE", must(x509.CreateCertificate(rand.Reader, certificate, certificate, seed.Public(), seed))),
		"broken":              blockOf("RSA PRIVATE KEY", []byte("nonsense")),
		"nkey":                "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY\n",
		"text":                "s3cret\n",
		"empty":               "",
		"blank":               "\n \n",
		"large":               strings.Repeat("ab", 1<<21),
	} {
		k.add(t, kind, text)
	}
	k.addTokens(t)
	if err := errors.Join(os.Mkdir(k.path("directory"), 0o700), unix.Mkfifo(k.path("pipe"), 0o600), os.Symlink("hex.public", k.path("link")), os.Symlink("nowhere", k.path("dangling"))); err != nil {
		t.Fatal(err)
	}
	k.provisioning = map[string]any{"hex.public": seed, "hex.public.upper": seed, "link": seed, "public.pkix": key, "public.pkcs1": key, "certificate": key}
	return k
}

// addTokens writes tokens for the key of hex.seed.
func (k *keyFiles) addTokens(t *testing.T) {
	t.Helper()
	for kind, change := range map[string]func(*tokens.ClientIDClaims){
		"token":                func(*tokens.ClientIDClaims) {},
		"token.upper":          func(c *tokens.ClientIDClaims) { c.PublicKey = strings.ToUpper(c.PublicKey) },
		"token.without key":    func(c *tokens.ClientIDClaims) { c.PublicKey = "" },
		"token.another":        func(c *tokens.ClientIDClaims) { c.PublicKey = otherHex },
		"token.without chain":  func(c *tokens.ClientIDClaims) { c.TrustChainSignature = "" },
		"token.without id":     func(c *tokens.ClientIDClaims) { c.ID = "" },
		"token.without expiry": func(c *tokens.ClientIDClaims) { c.ExpiresAt = nil },
		"token.odd id":         func(c *tokens.ClientIDClaims) { c.ID = "a.b" },
	} {
		claims := must(tokens.NewClientIDClaims("choria=provisioner", nil, "choria", nil, "", "", time.Hour, nil, k.seed.Public().(ed25519.PublicKey)))
		claims.ExpiresAt = gojwt.NewNumericDate(time.Now().Add(time.Hour))
		if err := claims.AddOrgIssuerData(k.issuer); err != nil {
			t.Fatal(err)
		}
		change(claims)
		k.add(t, kind, must(tokens.SignToken(claims, k.issuer)))
	}
}

// checked returns whether the check of a configuration accepts a setting.
func (k *keyFiles) checked(t *testing.T, key string, settings map[string]string) bool {
	t.Helper()
	text := "helper: /bin/true\ntoken: x\nfeatures: {jwt: true, ed25519: true}\n"
	for name, value := range settings {
		text += fmt.Sprintf("%s: %q\n", name, value)
	}
	path := filepath.Join(t.TempDir(), "provision.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	_, problems, err := config.Load(path, config.Overrides{Getenv: func(string) string { return "/tmp" }, Keys: Keys()})
	if invalid, ok := errors.AsType[*config.Invalid](err); ok {
		problems = invalid.Problems
	}
	for _, p := range problems {
		switch {
		case p.Severity == config.SeverityError && p.Key == key:
			return false
		case p.Severity == config.SeverityError:
			t.Errorf("got problem %v, want none but with %s", p, key)
		}
	}
	return true
}

// A file that config check accepts must not fail the run, nor the other way.
func TestCheckAndRunAcceptTheSameKeyFiles(t *testing.T) {
	t.Parallel()
	k := newKeyFiles(t)
	entries := must(os.ReadDir(k.dir))
	accepted := map[string][]string{
		"jwt_verify_cert":   {"hex.seed", "hex.seed.upper", "hex.public", "hex.public.upper", "link", "public.pkix", "public.pkcs1", "certificate"},
		"jwt_signing_key":   {"hex.seed", "hex.seed.upper", "hex.public", "hex.public.upper", "link", "pkcs1", "pkcs8.rsa"},
		"jwt_signing_token": {"token", "token.upper"},
	}
	kinds := []string{"missing"}
	for _, entry := range entries {
		kinds = append(kinds, entry.Name())
	}
	for key, good := range accepted {
		want := map[string]bool{}
		for _, kind := range good {
			want[kind] = true
		}
		for _, kind := range kinds {
			t.Run(key+"/"+kind, func(t *testing.T) {
				t.Parallel()
				settings := map[string]string{"jwt_verify_cert": k.path("hex.public"), "jwt_signing_key": k.path("hex.seed")}
				settings[key] = k.path(kind)
				if got := k.checked(t, key, settings); got != want[kind] {
					t.Errorf("config check: accepted %v, want %v", got, want[kind])
				}
				if err := k.used(t, key, kind); (err == nil) != want[kind] {
					t.Errorf("run: got error %v, want accepted %v", err, want[kind])
				}
			})
		}
	}
}

// used does with a key file what a run does, and returns the error that blames
// the file.
func (k *keyFiles) used(t *testing.T, key, kind string) error {
	t.Helper()
	if key == "jwt_verify_cert" {
		signer := k.provisioning[kind]
		if signer == nil {
			signer = k.seed
		}
		_, err := VerifyJWT(signed(t, provisioningClaims(t, time.Hour), signer), k.path(kind))
		if k.provisioning[kind] == nil && errors.Is(err, ErrJWT) { // a good key of somebody else
			return nil
		}
		return err
	}
	c := config.Default()
	c.JWTSigningKey = k.path("hex.seed")
	if key == "jwt_signing_key" {
		c.JWTSigningKey = k.path(kind)
	} else {
		c.JWTSigningToken = k.path(kind)
	}
	public, _ := newKey(t)
	_, _, err := IssueServerJWT(ServerJWTRequest{Identity: "n1", PublicKey: public, Config: c, Settings: settings{}})
	return err
}

// The records of a site hold a hash of its trust root: it must not change with
// the file's name, nor with a certificate of the same key.
func TestTrustRootIsTheKeyItself(t *testing.T) {
	t.Parallel()
	k := newKeyFiles(t)
	public := hex.EncodeToString(k.seed.Public().(ed25519.PublicKey))
	pkix := hex.EncodeToString(must(x509.MarshalPKIXPublicKey(rsaKey().Public())))
	for setting, want := range map[string]string{
		"":                         "",
		strings.ToUpper(public):    public,
		k.path("hex.public"):       public,
		k.path("hex.public.upper"): public,
		k.path("link"):             public,
		k.path("public.pkix"):      pkix,
		k.path("certificate"):      pkix,
		k.path("public.pkcs1"):     hex.EncodeToString(x509.MarshalPKCS1PublicKey(&rsaKey().PublicKey)),
	} {
		if got, err := TrustRoot(setting); err != nil || got != want {
			t.Errorf("%s: got %q and error %v, want %q", setting, got, err, want)
		}
	}
	for _, kind := range []string{"missing", "directory", "pipe", "empty", "text", "pkcs1", "public.512"} {
		if got, err := TrustRoot(k.path(kind)); err == nil {
			t.Errorf("%s: got %q, want an error", kind, got)
		}
	}
}

// FuzzSigningKey holds that a key file is read as the key that it holds: a seed
// comes back digit by digit, an RSA key is the same one when written again.
func FuzzSigningKey(f *testing.F) {
	for _, text := range []string{strings.Repeat("0a", 32), strings.Repeat("0A", 32) + "\n", strings.Repeat("0a", 31), rsaPEM(rsaKey()), "-----BEGIN RSA PRIVATE KEY-----\nAAAA\n-----END RSA PRIVATE KEY-----\n", ""} {
		f.Add([]byte(text))
	}
	file := filepath.Join(f.TempDir(), "key")
	read := func(t *testing.T, text []byte) any {
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		key, err := ReadSigningKey(file)
		if (err == nil) == (key == nil) {
			t.Fatalf("got key %v and error %v, want one of them", key != nil, err)
		}
		return key
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		switch key := read(t, text).(type) {
		case ed25519.PrivateKey:
			if got := hex.EncodeToString(key.Seed()); !strings.EqualFold(got, strings.TrimSpace(string(text))) {
				t.Errorf("read seed %s of %q", got, text)
			}
		case *rsa.PrivateKey:
			if again := read(t, []byte(rsaPEM(key))); !key.Equal(again) {
				t.Error("the RSA key that was read does not come back")
			}
		}
	})
}
