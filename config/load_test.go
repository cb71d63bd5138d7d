package config

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/choria-io/tokens"
	"github.com/golang-jwt/jwt/v5"
	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// environment is a process environment of a test's own.
func environment(pairs ...string) func(string) string {
	return func(name string) string {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1]
			}
		}
		if name == "HOME" { // everybody has one; a test of somebody without says so
			return "/home/operator"
		}
		return ""
	}
}

func seedOf(fill byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed([]byte(strings.Repeat(string(fill), ed25519.SeedSize)))
}

func publicHex(key ed25519.PrivateKey) string {
	return hex.EncodeToString(key.Public().(ed25519.PublicKey))
}

var issuerHex = publicHex(seedOf('i'))

// site makes the files a configuration can name, all of them private.
func site(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	key, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"helper":        "#!/bin/sh\n",
		"orphan":        "#!/nowhere/ruby -w\n",
		"secret":        "a secret in a file\n",
		"empty":         "\n",
		"open":          "x",
		"seed":          hex.EncodeToString(seedOf('p').Seed()),
		"other":         hex.EncodeToString(seedOf('o').Seed()),
		"short":         hex.EncodeToString(seedOf('p').Seed())[:40],
		"public.pem":    string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})),
		"private.pem":   string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})),
		"encrypted.pem": "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMAMCAQA=\n-----END ENCRYPTED PRIVATE KEY-----\n",
		"marked.pub":    "\xef\xbb\xbf" + issuerHex + "\r\n",
		"issuer.pub":    issuerHex + "\n",
		"chain.jwt":     clientToken(t, true, time.Hour),
		"bare.jwt":      clientToken(t, false, time.Hour),
		"expired.jwt":   clientToken(t, true, -time.Hour),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, mode := range map[string]os.FileMode{"helper": 0o700, "orphan": 0o700, "open": 0o644} {
		if err := os.Chmod(filepath.Join(dir, name), mode); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// clientToken is a provisioner's JWT, bound to the key of seed.
func clientToken(t testing.TB, chain bool, validity time.Duration) string {
	t.Helper()
	public := seedOf('p').Public().(ed25519.PublicKey)
	claims, err := tokens.NewClientIDClaims("choria=provisioner", nil, "choria", nil, "", "choria", validity, nil, public)
	if err != nil {
		t.Fatal(err)
	}
	if chain {
		if err := claims.AddOrgIssuerData(seedOf('i')); err != nil {
			t.Fatal(err)
		}
	}
	if validity < 0 { // a date that goldens can hold
		claims.ExpiresAt = jwt.NewNumericDate(time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC))
	}
	token, err := tokens.SignToken(claims, seedOf('i'))
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// write puts a configuration beside the files of site. In its text DIR is the
// site's directory and ISSUER the Organization Issuer's public key.
func write(t testing.TB, dir, text string) string {
	t.Helper()
	path := filepath.Join(dir, "provision.yaml")
	text = strings.NewReplacer("DIR", dir, "ISSUER", issuerHex).Replace(text)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// load loads text, which must be usable, and returns its warnings.
func load(t testing.TB, text string, pairs ...string) (*Config, []Problem) {
	t.Helper()
	cfg, warnings, err := Load(write(t, site(t), text), Overrides{Keys: testKeys, Getenv: environment(pairs...)})
	if err != nil {
		t.Fatalf("got %v, want a usable configuration", err)
	}
	return cfg, warnings
}

func TestEveryMistakeIsToldWithPlaceAndRemedy(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/mistakes/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("got %d files and error %v, want mistakes", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			dir := site(t)
			golden(t, strings.TrimSuffix(file, ".yaml")+".txt", told(t, dir, string(text)))
		})
	}
}

// told is what Load says about text, the machine's own paths taken out.
func told(t *testing.T, dir, text string) string {
	t.Helper()
	_, problems, err := Load(write(t, dir, text), Overrides{Keys: testKeys, Getenv: environment("PATH", "/nowhere", "HOME", dir)})
	verdict := "usable\n"
	var invalid *Invalid
	if errors.As(err, &invalid) {
		problems, verdict = invalid.Problems, "not usable\n"
	} else if err != nil {
		t.Fatalf("got %v, want *Invalid", err)
	}
	for _, p := range problems {
		verdict += p.String() + "\n"
	}
	if strings.Contains(verdict, "s3cret") {
		t.Errorf("a problem shows a secret: %s", verdict)
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	return strings.NewReplacer(dir, "DIR", here, "HERE", issuerHex, "ISSUER").Replace(verdict)
}

func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

func TestKeyThatMayNotBeLookedAtIsNotCalledMissing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	locked := filepath.Join(dir, "locked") // a link to itself keeps out root too, whom no permission does
	if err := os.Symlink(locked, locked); err != nil {
		t.Fatal(err)
	}
	text := "helper: /bin/true\nfeatures: {jwt: true}\njwt_verify_cert: " + filepath.Join(locked, "signer.pem") + "\n"
	_, _, err := Load(write(t, dir, text), Overrides{Keys: testKeys, Getenv: environment()})
	if err == nil || !strings.Contains(err.Error(), "signer.pem cannot be read: too many levels of symbolic links") {
		t.Errorf("got %v, want an error that says why", err)
	}
}
