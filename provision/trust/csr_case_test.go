package trust

import (
	"crypto/x509"
	"testing"

	"choria-provision/config"
)

// DNS and certificates read names without letter case: a deny list cannot be
// passed, nor a node lose its own name, by spelling.
func TestCertificateNamesIgnoreLetterCase(t *testing.T) {
	t.Parallel()
	deny := append(config.Default().CertDenyList, pattern(`^vault\.example\.net$`))
	with := func(cn string, names ...string) *x509.CertificateRequest {
		request := named(cn)
		request.DNSNames = names
		return request
	}
	tests := []struct {
		name     string
		identity string
		request  *x509.CertificateRequest
		says     string
	}{
		{"the node's name in lower case", "A.Example.Net", with("a.example.net", "A.EXAMPLE.NET"), ""},
		{"the node's name in upper case", "a.example.net", with("A.Example.Net", "a.example.net"), ""},
		{"a denied identity", "Vault.Example.Net", with("Vault.Example.Net"), "cert_deny_list forbids"},
		{"a denied identity, asked for in lower case", "VAULT.example.net", with("vault.example.net"), "cert_deny_list forbids"},
		{"a denied alternative name", "a.example.net", with("a.example.net", "vAULT.example.net"), "cert_deny_list forbids"},
		{"a privileged name in capitals", "boss.MCollective", with("boss.MCollective"), "cert_deny_list forbids"},
		{"a letter that only looks the same", "kali.example.net", with("\u212aali.example.net"), "this node is"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := VerifyCSR(csrReply(t, rsaKey(), tt.request), CSRRules{Identity: tt.identity, Deny: deny})
			wantCause(t, err, ErrCSR, tt.says)
		})
	}
}
