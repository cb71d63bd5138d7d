package lab

import (
	"context"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/choria-io/tokens"
)

// pki is the network of x509 certificates, all signed by the lab's CA.
type pki struct{ files }

func (n pki) collective() string { return "mcollective" }

func (n pki) makeKeys() error {
	ca, err := selfSigned("Choria Lab CA", true)
	if err != nil {
		return err
	}
	broker, err := ca.issue("localhost", net.IPv4(127, 0, 0, 1))
	if err != nil {
		return err
	}
	errs := []error{ca.save(n.keys, "ca"), broker.save(n.keys, "broker"), makeSigner(n.keys)}
	for _, name := range []string{provisionerName, verifierName, recordsName} {
		client, err := ca.issue(clientName(name))
		if err != nil {
			return err
		}
		errs = append(errs, client.save(n.keys, name))
	}
	return errors.Join(errs...)
}

// security names the files of go-choria's file provider.
func (n pki) security(name string) settings {
	return settings{
		"plugin.security.provider":         "file",
		"plugin.security.file.certificate": n.key(name + ".pem"),
		"plugin.security.file.key":         n.key(name + ".key"),
		"plugin.security.file.ca":          n.key("ca.pem"),
	}
}

func (n pki) startBroker(ctx context.Context) (broker, error) {
	return startChoriaBroker(ctx, n.dir, n.security("broker").with(settings{
		"plugin.choria.network.provisioning.signer_cert": n.key("signer.pem"),
		// servers may also come with a server JWT that the signer signed
		"plugin.choria.network.server_signer_cert": n.key("signer.pem"),
	}))
}

func (n pki) provisioningJWT(claims *tokens.ProvisioningClaims) (string, error) {
	return tokens.SignTokenWithKeyFile(claims, n.key("signer.key"))
}

func (n pki) strangersJWT(claims *tokens.ProvisioningClaims) (string, error) {
	return signAsStranger(claims)
}

func (n pki) provisioner() map[string]any {
	return map[string]any{
		"broker_provisioning_password": brokerPassword,
		"jwt_verify_cert":              n.key("signer.pem"),
		"features":                     map[string]any{"jwt": true, "pki": true},
	}
}

func (n pki) client(name string) settings { return n.security(name) }

func (n pki) answer(q question, s site) (map[string]any, error) {
	if q.CSR == nil && q.ED25519 != nil {
		return n.answerWithToken(q, s), nil
	}
	if q.CSR == nil {
		return n.answerWithoutRequest(q, s)
	}
	ca, err := loadAuthority(n.keys, "ca")
	if err != nil {
		return nil, err
	}
	cert, err := signCSR(ca, q.CSR.CSR)
	if err != nil {
		return nil, err
	}
	return n.answerFor(q, s, ca, cert), nil
}

// answerWithKey is the answer of a site that makes its servers' keys.
func (n pki) answerWithKey(q question, s site) (map[string]any, error) {
	if q.CSR == nil {
		return n.answerWithoutRequest(q, s)
	}
	ca, err := loadAuthority(n.keys, "ca")
	if err != nil {
		return nil, err
	}
	leaf, err := ca.issue(q.Identity)
	if err != nil {
		return nil, err
	}
	key, err := keyPEM(leaf.key)
	if err != nil {
		return nil, err
	}
	answer := n.answerFor(q, s, ca, leaf.cert)
	answer["key"] = string(key)
	return answer, nil
}

// answerWithoutRequest is the whole answer in a dry run, in which no node makes a
// request.
func (n pki) answerWithoutRequest(q question, s site) (map[string]any, error) {
	if !dryRun() {
		return nil, errors.New("the input holds no csr: turn on features.pki")
	}
	return n.settingsFor(q, s, filepath.Join(nodeDir(n.dir, q.Identity), "ssl")), nil
}

func (n pki) answerFor(q question, s site, ca authority, cert *x509.Certificate) map[string]any {
	answer := n.settingsFor(q, s, q.CSR.SSLDir)
	answer["certificate"] = string(certPEM(cert))
	answer["ca"] = string(certPEM(ca.cert))
	answer["ssldir"] = q.CSR.SSLDir
	return answer
}

// settingsFor is the part of an answer that needs no request to sign.
func (n pki) settingsFor(q question, s site, ssl string) map[string]any {
	return answerWith(configuration(q.Identity, s, settings{
		"plugin.security.provider":         "file",
		"plugin.security.file.certificate": filepath.Join(ssl, "certificate.pem"),
		"plugin.security.file.key":         filepath.Join(ssl, "private.pem"),
		"plugin.security.file.ca":          filepath.Join(ssl, "ca.pem"),
	}))
}

// answerWithToken is the answer of a site whose servers have no certificates and
// whose brokers know the key that signs server JWTs, without an Organization
// Issuer.
func (n pki) answerWithToken(q question, s site) map[string]any {
	return answerWith(configuration(q.Identity, s, settings{
		"plugin.security.provider":                 "file",
		"plugin.security.server_anon_tls":          "true",
		"plugin.choria.security.server.token_file": filepath.Join(q.ED25519.Directory, "server.jwt"),
		"plugin.choria.security.server.seed_file":  filepath.Join(q.ED25519.Directory, "server.seed"),
	}))
}

func signCSR(ca authority, text string) (*x509.Certificate, error) {
	block, _ := pem.Decode([]byte(text))
	if block == nil {
		return nil, errors.New("the csr is no PEM block")
	}
	csr, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("reading the csr: %w", err)
	}
	if err := csr.CheckSignature(); err != nil {
		return nil, fmt.Errorf("the csr's signature: %w", err)
	}
	return sign(leafTemplate(csr.Subject.CommonName), ca, csr.PublicKey)
}

// verify holds key, certificate or token, and connection against each other.
func (n pki) verify(node string, seen connection) ([]string, error) {
	if _, err := os.Stat(filepath.Join(nodeDir(n.dir, node), serverJWT)); err == nil {
		return n.verifyToken(node, seen)
	}
	ssl := filepath.Join(nodeDir(n.dir, node), "ssl")
	key, err := readKey(filepath.Join(ssl, "private.pem"))
	if err != nil {
		return nil, err
	}
	cert, err := readCert(filepath.Join(ssl, "certificate.pem"))
	if err != nil {
		return nil, err
	}
	if err := n.verifyCert(node, cert, key); err != nil {
		return nil, err
	}
	if seen.subject != "CN="+node || seen.certificate != fingerprint(cert.Raw) {
		return nil, fmt.Errorf("the broker saw another certificate than the one on disk: %q", seen.subject)
	}
	whose := "its own key"
	if sent, err := n.verifySentKey(node, key); err != nil {
		return nil, err
	} else if sent {
		whose = "the key the helper sent"
	}
	return []string{fmt.Sprintf("certificate CN=%s fits %s and is the one the broker saw", node, whose)}, nil
}

// verifyToken is verify for a server that has a token in place of a certificate.
func (n pki) verifyToken(node string, seen connection) ([]string, error) {
	text, err := os.ReadFile(filepath.Join(nodeDir(n.dir, node), serverJWT))
	if err != nil {
		return nil, err
	}
	claims, err := tokens.ParseServerTokenWithKeyfile(string(text), n.key("signer.pem"))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", serverJWT, err)
	}
	if err := tokenFits(claims, n.dir, node, seen); err != nil {
		return nil, err
	}
	return []string{fmt.Sprintf("%s of %s fits its own key, is signed by the signer and is who the broker let in", serverJWT, node)}, nil
}

func (n pki) verifyCert(node string, cert *x509.Certificate, key *rsa.PrivateKey) error {
	ca, err := readCert(n.key("ca.pem"))
	if err != nil {
		return err
	}
	if public, ok := cert.PublicKey.(*rsa.PublicKey); !ok || !public.Equal(&key.PublicKey) {
		return errors.New("the certificate does not fit the private key beside it")
	}
	if cert.Subject.CommonName != node {
		return fmt.Errorf("the certificate is that of %q", cert.Subject.CommonName)
	}
	if err := cert.CheckSignatureFrom(ca); err != nil {
		return fmt.Errorf("the lab's CA did not sign the certificate: %w", err)
	}
	return nil
}

// verifySentKey reports whether the helper sent a key, which must be the one
// that arrived.
func (n pki) verifySentKey(node string, key *rsa.PrivateKey) (bool, error) {
	sent, err := loadIssued(n.dir, node)
	if err != nil || sent.Key == "" {
		return false, err
	}
	block, _ := pem.Decode([]byte(sent.Key))
	if block == nil || fingerprint(block.Bytes) != fingerprint(x509.MarshalPKCS1PrivateKey(key)) {
		return true, errors.New("the private key on disk is not the one the helper sent")
	}
	return true, nil
}
