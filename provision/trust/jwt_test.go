package trust

import (
	"cmp"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/choria-io/go-choria/choria"
	wire "github.com/choria-io/go-choria/providers/agent/mcorpc/golang/provision"
	"github.com/choria-io/tokens"
	gojwt "github.com/golang-jwt/jwt/v5"
	"github.com/google/renameio/v2"
)

// rsaKey is made once: it takes long, and tests only read it.
var rsaKey = sync.OnceValue(func() *rsa.PrivateKey { return makeRSA() })

func makeRSA() *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return key
}

func newKey(t testing.TB) (ed25519.PublicKey, ed25519.PrivateKey) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return public, private
}

func writeFile(t testing.TB, content string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

var otherHex = strings.Repeat("cd", ed25519.PublicKeySize)

// wantCause checks that err is nil when text is empty, and otherwise unwraps
// to cause and says text.
func wantCause(t *testing.T, err, cause error, text string) {
	t.Helper()
	switch {
	case text == "" && err != nil:
		t.Errorf("got error %v, want none", err)
	case text == "":
	case !errors.Is(err, cause):
		t.Errorf("got error %v, want cause %v", err, cause)
	case !strings.Contains(err.Error(), text):
		t.Errorf("got error %q, want one saying %q", err, text)
	}
}

func signed(t testing.TB, claims *tokens.ProvisioningClaims, key any) string {
	t.Helper()
	token, err := tokens.SignToken(claims, key)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func provisioningClaims(t testing.TB, validity time.Duration) *tokens.ProvisioningClaims {
	t.Helper()
	claims, err := tokens.NewProvisioningClaims(true, true, "shared", "", "", []string{"nats://b:4222"}, "", "", "", "choria", "", validity)
	if err != nil {
		t.Fatal(err)
	}
	return claims
}

func publicPEM(t testing.TB, key *rsa.PrivateKey) string {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
}

func TestProvisioningJWTOfThisSiteIsTaken(t *testing.T) {
	t.Parallel()
	public, private := newKey(t)
	claims := provisioningClaims(t, time.Hour)
	tests := []struct{ name, text, verify string }{
		{"hex key", signed(t, claims, private), hex.EncodeToString(public)},
		{"hex key in a file", signed(t, claims, private), writeFile(t, hex.EncodeToString(public)+"\n")},
		{"RSA public key", signed(t, claims, rsaKey()), writeFile(t, publicPEM(t, rsaKey()))},
		{"line end behind it", signed(t, claims, private) + "\n", hex.EncodeToString(public)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := VerifyJWT(tt.text, tt.verify)
			if err != nil {
				t.Fatal(err)
			}
			if got.Token != "shared" || got.URLs != "nats://b:4222" {
				t.Errorf("got claims %+v, want those that were signed", got)
			}
		})
	}
}

func TestOtherProvisioningJWTsAreRefused(t *testing.T) {
	t.Parallel()
	public, private := newKey(t)
	_, other := newKey(t)
	ours := hex.EncodeToString(public)
	claims := provisioningClaims(t, time.Hour)
	good := signed(t, claims, private)
	server, err := tokens.NewServerClaims("n1", []string{"c"}, "choria", nil, nil, public, "", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	serverToken, err := tokens.SignToken(server, private)
	if err != nil {
		t.Fatal(err)
	}
	header, rest, _ := strings.Cut(good, ".")
	none := "eyJhbGciOiJub25lIiwidHlwIjoiSldUIn0" // {"alg":"none","typ":"JWT"}
	tests := []struct{ name, text, verify, says string }{
		{"an expired one by another key", signed(t, provisioningClaims(t, -time.Hour), other), ours, "signature"},
		{"by another key", signed(t, claims, other), ours, "signature"},
		{"signed by another kind of key", signed(t, claims, rsaKey()), ours, "an RSA key signed it, jwt_verify_cert is an ed25519 key"},
		{"signed by another kind of key, the other way", good, writeFile(t, publicPEM(t, rsaKey())), "an ed25519 key signed it, jwt_verify_cert is an RSA key"},
		{"of another purpose", serverToken, ours, "not a provisioning token"},
		{"unsigned", none + "." + rest[:strings.LastIndex(rest, ".")] + ".", ours, "signing method"},
		{"signature cut off", header + "." + rest[:strings.LastIndex(rest, ".")], ours, "invalid number of segments"},
		{"empty", "", ours, "token"},
		{"garbage", "\x00\xff{}", ours, "token"},
		{"megabytes", strings.Repeat("a.", 1<<20), ours, "at most"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := VerifyJWT(tt.text, tt.verify)
			if got != nil || err == nil {
				t.Errorf("got claims %v and error %v, want an error", got, err)
			}
			wantCause(t, err, ErrJWT, tt.says)
		})
	}
}

// What is wrong with our own key says nothing of the node.
func TestKeysThatVerifyNothing(t *testing.T) {
	t.Parallel()
	public, private := newKey(t)
	good := signed(t, provisioningClaims(t, time.Hour), private)
	tests := []struct{ name, verify, says string }{
		{"no key configured", "", "jwt_verify_cert: is not set"},
		{"key file that is gone", "/nonexistent/signer.pem", "/nonexistent/signer.pem does not exist, and it is not a hex ed25519 public key either"},
		{"key that is too short", hex.EncodeToString(public)[2:], "has 62 hex digits; an ed25519 public key has 64"},
		{"key file of something else", writeFile(t, "hello"), "jwt_verify_cert"},
		{"key file that is a directory", t.TempDir(), "is not a file"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := VerifyJWT(good, tt.verify)
			if got != nil || err == nil || errors.Is(err, ErrJWT) {
				t.Errorf("got claims %v and error %v, want an error that does not blame the token", got, err)
			}
			wantCause(t, err, ErrVerifyKey, tt.says)
		})
	}
}

// A token of the right signer at the wrong time has a cause of its own.
func TestTokensOutOfTheirTime(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		change func(*tokens.ProvisioningClaims, time.Time)
		cause  error // nil: it counts
		says   string
	}{
		{"expired", func(c *tokens.ProvisioningClaims, now time.Time) {
			c.ExpiresAt = gojwt.NewNumericDate(now.Add(-time.Hour))
		},
			ErrJWTExpired, "provisioning.jwt has expired: at 2026-03-01T11:00:00Z, 1h0m0s ago"},
		{"just expired", func(c *tokens.ProvisioningClaims, now time.Time) {
			c.ExpiresAt = gojwt.NewNumericDate(now.Add(-59 * time.Second))
		}, nil, ""},
		{"expired beyond the leeway", func(c *tokens.ProvisioningClaims, now time.Time) {
			c.ExpiresAt = gojwt.NewNumericDate(now.Add(-61 * time.Second))
		},
			ErrJWTExpired, "1m1s ago"},
		{"signed half a minute ahead of our clock", func(c *tokens.ProvisioningClaims, now time.Time) {
			c.NotBefore = gojwt.NewNumericDate(now.Add(30 * time.Second))
			c.IssuedAt = c.NotBefore
		}, nil, ""},
		{"not valid yet", func(c *tokens.ProvisioningClaims, now time.Time) {
			c.NotBefore = gojwt.NewNumericDate(now.Add(5 * time.Minute))
		},
			ErrJWTTooEarly, "provisioning.jwt is not valid yet: not before 2026-03-01T12:05:00Z, in 5m0s"},
		{"without end", func(c *tokens.ProvisioningClaims, _ time.Time) { c.ExpiresAt = nil }, nil, ""},
		{"issuer of a chain expired", func(c *tokens.ProvisioningClaims, now time.Time) {
			c.TrustChainSignature, c.Issuer, c.IssuerExpiresAt = "x", "C-x.y", gojwt.NewNumericDate(now.Add(-time.Hour))
		}, ErrJWTExpired, "its issuer did"},
		{"issuer of a chain that does not end", func(c *tokens.ProvisioningClaims, _ time.Time) { c.TrustChainSignature, c.Issuer = "x", "C-x.y" }, ErrJWT, "does not say when its issuer expires"},
		{"chain of the issuer itself", func(c *tokens.ProvisioningClaims, _ time.Time) { c.TrustChainSignature, c.Issuer = "x", "I-x" }, ErrJWT, "does not say when its issuer expires"},
		{"issuer of a chain", func(c *tokens.ProvisioningClaims, now time.Time) {
			c.TrustChainSignature, c.Issuer, c.IssuerExpiresAt = "x", "C-x.y", gojwt.NewNumericDate(now.Add(time.Hour))
		}, nil, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
				time.Sleep(time.Until(now)) // the bubble's clock
				public, private := newKey(t)
				claims := provisioningClaims(t, 24*time.Hour)
				tt.change(claims, now)
				got, err := VerifyJWT(signed(t, claims, private), hex.EncodeToString(public))
				if (got == nil) != (tt.cause != nil) {
					t.Errorf("got claims %v and error %v, want one of them", got, err)
				}
				wantCause(t, err, tt.cause, tt.says)
				if !errors.Is(tt.cause, ErrJWT) && errors.Is(err, ErrJWT) {
					t.Errorf("got error %v, want no word of another site", err)
				}
			})
		})
	}
}

// A run may last for hours and watch for months; the site's key may be rotated
// or withdrawn meanwhile, in any way.
func TestChangedSiteKeyCountsAtOnce(t *testing.T) {
	t.Parallel()
	rewrite := func(path, text string) error { return os.WriteFile(path, []byte(text), 0o600) } // the same file, of the same size
	tests := []struct {
		name    string
		change  func(path, text string) error
		refused string // "": the new key counts
	}{
		{"new file", func(path, text string) error { return renameio.WriteFile(path, []byte(text), 0o600) }, ""},
		{"same file", rewrite, ""},
		{"same file with the old one's time", func(path, text string) error {
			before, err := os.Stat(path)
			return errors.Join(err, rewrite(path, text), os.Chtimes(path, before.ModTime(), before.ModTime()))
		}, ""},
		{"other name for it", func(path, text string) error {
			return errors.Join(os.WriteFile(path+".new", []byte(text), 0o600), os.Remove(path), os.Symlink(path+".new", path))
		}, ""},
		{"no file", func(path, _ string) error { return os.Remove(path) }, "does not exist"},
		{"a directory", func(path, _ string) error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o700)) }, "is not a file"},
		{"no key", func(path, text string) error { return rewrite(path, strings.Repeat("x", len(text))) }, "key"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			before, beforePrivate := newKey(t)
			after, afterPrivate := newKey(t)
			old, fresh := signed(t, provisioningClaims(t, time.Hour), beforePrivate), signed(t, provisioningClaims(t, time.Hour), afterPrivate)
			path := writeFile(t, hex.EncodeToString(before))
			if _, err := VerifyJWT(old, path); err != nil {
				t.Fatal(err)
			}
			if err := tt.change(path, hex.EncodeToString(after)); err != nil {
				t.Fatal(err)
			}
			cause := ErrJWT
			if tt.refused != "" {
				cause = ErrVerifyKey
			}
			_, err := VerifyJWT(fresh, path)
			wantCause(t, err, cause, tt.refused)
			_, err = VerifyJWT(old, path)
			wantCause(t, err, cause, cmp.Or(tt.refused, "signature"))
		})
	}
}

func keyProof(t testing.TB, nonce string) wire.ED25519Reply {
	t.Helper()
	public, private := newKey(t)
	return wire.ED25519Reply{
		PublicKey: hex.EncodeToString(public),
		Signature: hex.EncodeToString(ed25519.Sign(private, []byte(nonce))),
		Directory: "/d",
	}
}

func TestProvenKeyIsAccepted(t *testing.T) {
	t.Parallel()
	reply := keyProof(t, "nonce")
	got, err := VerifyKeyProof(reply, "nonce")
	if err != nil || hex.EncodeToString(got) != reply.PublicKey {
		t.Errorf("got key %x and error %v, want %s", got, err, reply.PublicKey)
	}
}

func TestUnprovenKeysAreRefused(t *testing.T) {
	t.Parallel()
	good, other := keyProof(t, "nonce"), keyProof(t, "nonce")
	tests := []struct {
		name        string
		key, sig    string
		nonce, says string
	}{
		{"another machine's key", other.PublicKey, good.Signature, "nonce", "not by this key"},
		{"an older nonce", good.PublicKey, good.Signature, "fresh", "not by this key"},
		{"no nonce", good.PublicKey, good.Signature, "", "no nonce"},
		{"no key", "", good.Signature, "nonce", "public key has 0 characters"},
		{"short key", good.PublicKey[2:], good.Signature, "nonce", "public key has 62 characters"},
		{"long key", good.PublicKey + "00", good.Signature, "nonce", "public key has 66 characters"},
		{"key that is no hex", strings.Repeat("zz", 32), good.Signature, "nonce", "public key is not hex"},
		{"no signature", good.PublicKey, "", "nonce", "signature has 0 characters"},
		{"short signature", good.PublicKey, good.Signature[:64], "nonce", "signature has 64 characters"},
		{"signature that is no hex", good.PublicKey, strings.Repeat("\x00", 128), "nonce", "signature is not hex"},
		{"megabytes", strings.Repeat("ab", 1<<20), good.Signature, "nonce", "public key has 2097152 characters"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			key, err := VerifyKeyProof(wire.ED25519Reply{PublicKey: tt.key, Signature: tt.sig}, tt.nonce)
			if key != nil || err == nil {
				t.Errorf("got key %x and error %v, want an error", key, err)
			}
			wantCause(t, err, ErrKeyProof, tt.says)
		})
	}
}

func FuzzVerifyJWT(f *testing.F) {
	public, private := newKey(f)
	_, other := newKey(f)
	good := signed(f, provisioningClaims(f, time.Hour), private)
	for _, text := range []string{good, signed(f, provisioningClaims(f, time.Hour), other), "", "a.b.c", "..", good[:len(good)-4]} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		claims, err := VerifyJWT(text, hex.EncodeToString(public))
		if err != nil && !errors.Is(err, ErrJWT) {
			t.Errorf("got error %v, want one that unwraps to ErrJWT", err)
		}
		if err == nil && claims.Token != "shared" {
			t.Errorf("got unsigned claims: %+v", claims)
		}
	})
}

// Signatures for such a key need no private key.
func TestKeysOfSmallOrderAreRefused(t *testing.T) {
	t.Parallel()
	zeros := strings.Repeat("00", 31)
	points := map[string]string{
		"neutral element":             "01" + zeros,
		"neutral element, written as": "ee" + strings.Repeat("ff", 30) + "7f", // p+1
		"of order 2":                  "ec" + strings.Repeat("ff", 30) + "7f",
		"of order 4":                  "00" + zeros,
		"of order 4, negative":        strings.Repeat("00", 31) + "80",
		"of order 8":                  "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
		"of order 8, the other":       "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
	}
	for name, key := range points {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// R is neutral and S is 0: the signature of every eighth message, at least.
			signature := "01" + zeros + strings.Repeat("00", 32)
			for i := range 64 {
				got, err := VerifyKeyProof(wire.ED25519Reply{PublicKey: key, Signature: signature}, fmt.Sprint("nonce ", i))
				wantCause(t, err, ErrKeyProof, "small order")
				if got != nil || err == nil {
					t.Fatalf("got key %x and error %v, want an error", got, err)
				}
			}
		})
	}
}

func FuzzParseNodeECDH(f *testing.F) {
	_, public, err := choria.ECDHKeyPair()
	if err != nil {
		f.Fatal(err)
	}
	for _, text := range []string{hex.EncodeToString(public), "", strings.Repeat("0", 64), strings.Repeat("z", 64), "0x"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := parseNodeECDH(text)
		if (err == nil) != (len(got) == ecdhLength) {
			t.Errorf("got %d bytes and error %v, want %d or an error", len(got), err, ecdhLength)
		}
		if err == nil && !strings.EqualFold(hex.EncodeToString(got), text) {
			t.Errorf("got %x, want %s", got, text)
		}
	})
}
