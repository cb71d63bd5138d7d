package trust

import (
	"net/url"
	"testing"

	"choria-provision/config"
)

// A URI that is allowed as a whole may still carry a forbidden name in a part of
// it: as its host, its path or, without slashes, as all that follows the scheme.
func TestEachPartOfAURIMeetsTheDenyList(t *testing.T) {
	t.Parallel()
	allow := []config.Pattern{pattern(`.*`)}
	tests := []struct{ name, uri, deny string }{
		{"opaque", "urn:boss.choria", `^boss\.choria$`},
		{"opaque in capitals", "urn:BOSS.Choria", `^boss\.choria$`},
		{"opaque with the root's dot", "urn:boss.choria.", `^boss\.choria$`},
		{"opaque address", "mailto:root@example.net", `^root@`},
		{"host", "https://boss.choria/x", `^boss\.choria$`},
		{"host with a port", "https://boss.choria:8080/x", `^boss\.choria$`},
		{"path", "https://n1/boss", `^/boss$`},
		{"whole", "spiffe://n1/x", `^spiffe:`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			template := named("n1")
			template.URIs = []*url.URL{mustURL(t, tt.uri)}
			reply := csrReply(t, rsaKey(), template)
			if got, err := VerifyCSR(reply, CSRRules{Identity: "n1", Allow: allow}); got == nil || err != nil {
				t.Errorf("got %v without a deny list, want it taken", err)
			}
			got, err := VerifyCSR(reply, CSRRules{Identity: "n1", Allow: allow, Deny: []config.Pattern{pattern(tt.deny)}})
			if got != nil || err == nil {
				t.Errorf("got a request and error %v, want it refused", err)
			}
			wantCause(t, err, ErrCSR, "cert_deny_list forbids")
		})
	}
}
