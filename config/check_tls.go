package config

import (
	"crypto"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"time"
)

// tlsFiles are certificate, key and CA of one of go-choria's providers. prefix
// is that of their keys; an empty path is not checked.
type tlsFiles struct{ prefix, certificate, key, ca string }

// check reads the files as crypto/tls will.
func (f tlsFiles) check(now time.Time) []finding {
	var found []finding
	var certificate *x509.Certificate
	if f.certificate != "" {
		text, problem := readKeyFile(f.prefix+"certificate", f.certificate)
		if problem == nil {
			certificate, problem = parseCertificate(f.prefix+"certificate", f.certificate, text)
		}
		found = append(found, asList(problem)...)
	}
	if certificate != nil {
		found = append(found, checkDates(f.prefix+"certificate", f.certificate, certificate, now)...)
	}
	if f.key != "" {
		found = append(found, f.checkKey(certificate)...)
	}
	if f.ca != "" {
		text, problem := readKeyFile(f.prefix+"ca", f.ca)
		if problem == nil {
			_, problem = parseCertificate(f.prefix+"ca", f.ca, text)
		}
		found = append(found, asList(problem)...)
	}
	return found
}

// checkKey holds that the private key can be read and belongs to certificate,
// when that is known.
func (f tlsFiles) checkKey(certificate *x509.Certificate) []finding {
	key := f.prefix + "key"
	text, problem := readKeyFile(key, f.key)
	if problem != nil {
		return asList(problem)
	}
	found := checkAccess(key, f.key)
	private, problem := parseKey(key, f.key, text)
	if problem != nil {
		return append(found, *problem)
	}
	public, ok := private.Public().(interface{ Equal(crypto.PublicKey) bool })
	if certificate != nil && (!ok || !public.Equal(certificate.PublicKey)) {
		found = append(found, mistake(key, fmt.Sprintf("%s is not the key of the certificate in %s", absolute(f.key), absolute(f.certificate)), "name the two that were made together"))
	}
	return found
}

// privateKey returns the key, or nil when there is none that can be read.
func (f tlsFiles) privateKey() crypto.Signer {
	if text, problem := readKeyFile(f.prefix+"key", f.key); f.key != "" && problem == nil {
		if private, problem := parseKey(f.prefix+"key", f.key, text); problem == nil {
			return private
		}
	}
	return nil
}

// parseCertificate returns the first certificate of a PEM file.
func parseCertificate(key, path string, text []byte) (*x509.Certificate, *finding) {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			f := mistake(key, fmt.Sprintf("%s holds a certificate that cannot be read: %s", absolute(path), strings.TrimPrefix(err.Error(), "x509: ")), "name a file with a certificate in PEM")
			return nil, &f
		}
		return certificate, nil
	}
	f := mistake(key, absolute(path)+" holds no certificate", "name a file with a certificate in PEM")
	if _, err := x509.ParseCertificate(text); err == nil {
		f = mistake(key, absolute(path)+" is a certificate in DER", "convert it to PEM: openssl x509 -inform der -in FILE -out FILE.pem")
	}
	return nil, &f
}

// checkDates warns: which time counts is decided by the broker's clock.
func checkDates(key, path string, certificate *x509.Certificate, now time.Time) []finding {
	switch {
	case now.After(certificate.NotAfter):
		return []finding{warning(key, absolute(path)+" expired on "+certificate.NotAfter.UTC().Format("2006-01-02"), "have a new one made")}
	case now.Before(certificate.NotBefore):
		return []finding{warning(key, absolute(path)+" is not valid before "+certificate.NotBefore.UTC().Format(time.RFC3339), "check this machine's clock")}
	}
	return nil
}

// parseKey returns the private key of a PEM file.
func parseKey(key, path string, text []byte) (crypto.Signer, *finding) {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if !strings.HasSuffix(block.Type, "PRIVATE KEY") {
			continue
		}
		if isEncrypted(block) {
			f := mistake(key, absolute(path)+" is encrypted", "store the key without a passphrase, readable by this user alone")
			return nil, &f
		}
		if private, err := parsePrivate(block.Bytes); err == nil {
			return private, nil
		}
		f := mistake(key, absolute(path)+" holds a private key that cannot be read", "name a file with a private key in PEM (PKCS #1 or #8)")
		return nil, &f
	}
	f := mistake(key, absolute(path)+" holds no private key", "name a file with a private key in PEM")
	if _, err := parsePrivate(text); err == nil {
		f = mistake(key, absolute(path)+" is a private key in DER", "convert it to PEM: openssl pkey -inform der -in FILE -out FILE.pem")
	}
	return nil, &f
}

func parsePrivate(der []byte) (crypto.Signer, error) {
	if key, err := x509.ParsePKCS1PrivateKey(der); err == nil {
		return key, nil
	}
	if key, err := x509.ParseECPrivateKey(der); err == nil {
		return key, nil
	}
	key, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		return nil, err
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, errors.New("it cannot sign")
	}
	return signer, nil
}

func isRSA(key crypto.Signer) bool {
	_, ok := key.(*rsa.PrivateKey)
	return ok
}

// isEncrypted reports whether a PEM block is a private key with a passphrase.
func isEncrypted(block *pem.Block) bool {
	return block.Type == "ENCRYPTED PRIVATE KEY" || strings.Contains(block.Headers["Proc-Type"], "ENCRYPTED")
}
