package lab

import (
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// keyBits is the size go-choria's file provider is made for; it takes RSA only.
const keyBits = 2048

// authority signs certificates.
type authority struct {
	cert *x509.Certificate
	key  crypto.Signer
}

// selfSigned makes a certificate that vouches for itself; as a CA it may sign
// others.
func selfSigned(name string, ca bool) (authority, error) {
	key, err := rsa.GenerateKey(rand.Reader, keyBits)
	if err != nil {
		return authority{}, err
	}
	template := leafTemplate(name)
	if ca {
		template = &x509.Certificate{
			Subject:               pkix.Name{CommonName: name},
			KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign | x509.KeyUsageDigitalSignature,
			BasicConstraintsValid: true,
			IsCA:                  true,
		}
	}
	cert, err := sign(template, authority{template, key}, key.Public())
	return authority{cert, key}, err
}

// leafTemplate is a certificate for both ends of a connection.
func leafTemplate(name string) *x509.Certificate {
	return &x509.Certificate{
		Subject:     pkix.Name{CommonName: name},
		DNSNames:    []string{name},
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
}

func sign(template *x509.Certificate, by authority, key crypto.PublicKey) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	template.SerialNumber = serial
	template.NotBefore = time.Now().Add(-time.Hour)
	template.NotAfter = time.Now().Add(validity)
	der, err := x509.CreateCertificate(rand.Reader, template, by.cert, key, by.key)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

// issue makes a key and a certificate for a name; the broker's also covers the
// address it listens on.
func (a authority) issue(name string, addresses ...net.IP) (authority, error) {
	key, err := rsa.GenerateKey(rand.Reader, keyBits)
	if err != nil {
		return authority{}, err
	}
	template := leafTemplate(name)
	template.IPAddresses = addresses
	cert, err := sign(template, a, key.Public())
	return authority{cert, key}, err
}

// save writes NAME.pem and NAME.key.
func (a authority) save(dir, name string) error {
	key, err := keyPEM(a.key)
	if err != nil {
		return err
	}
	return saveFiles(dir, map[string][]byte{name + ".pem": certPEM(a.cert), name + ".key": key})
}

func loadAuthority(dir, name string) (authority, error) {
	cert, err := readCert(filepath.Join(dir, name+".pem"))
	if err != nil {
		return authority{}, err
	}
	key, err := readKey(filepath.Join(dir, name+".key"))
	return authority{cert, key}, err
}

func saveFiles(dir string, texts map[string][]byte) error {
	for name, text := range texts {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			return err
		}
	}
	return nil
}

func certPEM(cert *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw})
}

// keyPEM encodes as PKCS#1: a node labels any key it is sent as that.
func keyPEM(key crypto.Signer) ([]byte, error) {
	own, ok := key.(*rsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("a key of type %T, not RSA", key)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(own)}), nil
}

func publicPEM(key crypto.PublicKey) ([]byte, error) {
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), nil
}

func readPEM(path string) (*pem.Block, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, fmt.Errorf("%s holds no PEM block", path)
	}
	return block, nil
}

func readCert(path string) (*x509.Certificate, error) {
	block, err := readPEM(path)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%s holds no certificate: %w", path, err)
	}
	return cert, nil
}

func readKey(path string) (*rsa.PrivateKey, error) {
	block, err := readPEM(path)
	if err != nil {
		return nil, err
	}
	key, err := x509.ParsePKCS1PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%s holds no readable private key: %w", path, err)
	}
	return key, nil
}

// newSeed makes an ed25519 key and writes its seed in hex, as go-choria reads it.
func newSeed(dir, name string) (ed25519.PrivateKey, error) {
	public, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	return key, saveFiles(dir, map[string][]byte{
		name + ".seed":   []byte(hex.EncodeToString(key.Seed())),
		name + ".public": []byte(hex.EncodeToString(public)),
	})
}

func readSeed(path string) (ed25519.PrivateKey, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	seed, err := hex.DecodeString(string(text))
	if err != nil || len(seed) != ed25519.SeedSize {
		return nil, fmt.Errorf("%s holds no ed25519 seed in hex", path)
	}
	return ed25519.NewKeyFromSeed(seed), nil
}

// makeStrangerCA writes stranger-ca.pem: a CA that signed nothing here.
func makeStrangerCA(dir string) error {
	ca, err := selfSigned("A stranger's CA", true)
	if err != nil {
		return err
	}
	return saveFiles(dir, map[string][]byte{"stranger-ca.pem": certPEM(ca.cert)})
}
