package helper

import (
	"bytes"
	"crypto"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"time"

	"choria-provision/provision/trust"
)

// checkCertificates refuses incomplete credentials: the node writes certificate, CA
// and key only if certificate, CA and directory all arrive, and silently drops them
// otherwise.
//
//nolint:gocyclo // one flat list of rules, each a case of its own
func checkCertificates(a Answer, c CheckInput, f *problems) {
	switch {
	case a.Certificate == "" && c.CSR != nil:
		f.errorf("there is no certificate in it, though features.pki had the node ask for one")
	case a.Certificate == "" && a.Key != "":
		f.errorf("there is a key without certificate: the node would drop it")
	case a.Certificate == "" && a.CA != "":
		f.warn("there is a ca without certificate: the node drops it")
	}
	if a.Certificate != "" && a.CA == "" {
		f.errorf("there is a certificate without ca: the node would drop it")
	}
	if a.Certificate != "" && a.sslDir(c) == "" && c.CSR == nil && c.ED25519 == nil {
		f.errorf("there is a certificate and nobody said where the node keeps it: set ssldir")
	}
	if a.Key != "" && !c.Config.Features.JWT {
		f.errorf("there is a key, which cannot be encrypted for the node: that needs features.jwt")
	}
	checkPEM(a, c, f)
}

// checkPEM checks what is present; checkCertificates reports what is missing.
func checkPEM(a Answer, c CheckInput, f *problems) {
	chain, err := parseCertificates(a.Certificate)
	if err != nil {
		f.errorf("certificate: %v", err)
	}
	roots, err := parseCertificates(a.CA)
	if err != nil {
		f.errorf("ca: %v", err)
	}
	var private crypto.Signer
	if a.Key != "" {
		if private, err = trust.ParsePrivateKey(a.Key); err != nil {
			f.errorf("key: %v", err)
		}
	}
	if len(chain) == 0 {
		return
	}
	checkLeaf(chain[0], c.Identity, a.identity(c), f)
	checkPair(chain[0], private, c, f)
	if len(roots) > 0 && !issuedBy(chain, roots) {
		f.warn("certificate: it was not issued by the ca that comes with it")
	}
}

// checkLeaf requires a certificate for the identity after the restart.
func checkLeaf(leaf *x509.Certificate, identity, renamed string, f *problems) {
	switch {
	case trust.SameName(leaf.Subject.CommonName, renamed):
	case leaf.Subject.CommonName == "" && slices.ContainsFunc(leaf.DNSNames, func(name string) bool { return trust.SameName(name, renamed) }):
	case renamed != identity:
		f.errorf("certificate: it is for %q, while identity in the configuration is %q", leaf.Subject.CommonName, renamed)
	default:
		f.errorf("certificate: it is for %q, this node is %q: the answer is another node's", leaf.Subject.CommonName, identity)
	}
	switch now := time.Now(); {
	case now.After(leaf.NotAfter):
		f.errorf("certificate: it expired at %s", leaf.NotAfter.Format(time.RFC3339))
	case now.Before(leaf.NotBefore):
		f.warn("certificate: it is not valid before %s", leaf.NotBefore.Format(time.RFC3339))
	}
}

// checkPair requires that certificate and key belong together. The key is the one
// in the answer, which replaces the node's own, or else the one of its CSR.
func checkPair(leaf *x509.Certificate, private crypto.Signer, c CheckInput, f *problems) {
	switch {
	case private != nil && !trust.SameKey(leaf.PublicKey, private.Public()):
		f.errorf("certificate: it does not belong to the key that comes with it")
	case private == nil && c.CSR != nil && !trust.SameKey(leaf.PublicKey, c.CSR.PublicKey):
		f.errorf("certificate: it does not belong to the key of the node's CSR: the answer is another node's")
	}
	if _, isRSA := leaf.PublicKey.(*rsa.PublicKey); !isRSA {
		f.warn("certificate: its key is not RSA, and go-choria's file security provider signs with RSA only")
	}
}

func issuedBy(chain, roots []*x509.Certificate) bool {
	options := x509.VerifyOptions{
		Roots:         x509.NewCertPool(),
		Intermediates: x509.NewCertPool(),
		CurrentTime:   chain[0].NotBefore, // its dates are looked at elsewhere
		KeyUsages:     []x509.ExtKeyUsage{x509.ExtKeyUsageAny},
	}
	for _, root := range roots {
		options.Roots.AddCert(root)
	}
	for _, link := range chain[1:] {
		options.Intermediates.AddCert(link)
	}
	_, err := chain[0].Verify(options)
	return err == nil
}

// parseCertificates reads PEM certificates, and nothing else, from a text; none
// from an empty one.
func parseCertificates(text string) ([]*x509.Certificate, error) {
	var certificates []*x509.Certificate
	for rest := bytes.TrimSpace([]byte(text)); len(rest) > 0; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			return nil, errors.New("it is no PEM, or holds something else beside it")
		}
		if block.Type != "CERTIFICATE" {
			return nil, fmt.Errorf("it is a PEM block of type %q, want CERTIFICATE", block.Type)
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		certificates = append(certificates, certificate)
		rest = bytes.TrimSpace(rest)
	}
	return certificates, nil
}
