package trust

import (
	"crypto/x509"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"choria-provision/config"
)

// checkCSRNames requires a subject of exactly one common name, and that this name
// and the alternative names are the node's identity or allowed.
func checkCSRNames(csr *x509.CertificateRequest, rules CSRRules) error {
	var names []string
	for _, attribute := range csr.Subject.Names {
		if !attribute.Type.Equal(oidCommonName) {
			return fmt.Errorf("its subject holds more than a common name: %s = %q", attribute.Type, fmt.Sprint(attribute.Value))
		}
		name, _ := attribute.Value.(string)
		if !SameName(name, rules.Identity) {
			return fmt.Errorf("it asks for the name %q, this node is %q", name, rules.Identity)
		}
		names = append(names, name)
	}
	if len(names) != 1 {
		return fmt.Errorf("it asks for %d common names, want 1", len(names))
	}
	for _, name := range append(names, rules.Identity) {
		if err := rules.checkDenied(name); err != nil {
			return err
		}
	}
	for _, name := range alternativeNames(csr) {
		if err := rules.checkDenied(name); err != nil {
			return err
		}
	}
	if err := rules.checkURIs(csr.URIs); err != nil {
		return err
	}
	for _, name := range alternativeNames(csr) {
		if err := rules.checkAllowed(name); err != nil {
			return err
		}
	}
	return nil
}

func alternativeNames(csr *x509.CertificateRequest) []string {
	names := append(append([]string{}, csr.DNSNames...), csr.EmailAddresses...)
	for _, ip := range csr.IPAddresses {
		names = append(names, ip.String())
	}
	for _, uri := range csr.URIs {
		names = append(names, uri.String())
	}
	return names
}

// checkURIs applies the deny list to the parts of URIs, too.
func (r CSRRules) checkURIs(uris []*url.URL) error {
	for _, uri := range uris {
		for _, part := range []string{uri.Hostname(), uri.Path, uri.Opaque} {
			if err := r.checkDenied(part); err != nil {
				return err
			}
		}
	}
	return nil
}

// normalName returns a name as a resolver reads it: in lower case and without the
// dot of the root. It folds ASCII only, because other letters fold to ASCII ones
// that merely look the same.
func normalName(name string) string {
	name = strings.TrimSuffix(name, ".")
	if strings.ContainsFunc(name, func(r rune) bool { return r > unicode.MaxASCII }) {
		return name
	}
	return strings.ToLower(name)
}

// SameName reports whether two DNS names are equal to a resolver.
func SameName(a, b string) bool { return normalName(a) == normalName(b) }

func (r CSRRules) checkDenied(name string) error {
	if strings.ContainsFunc(name, func(r rune) bool { return unicode.IsControl(r) || unicode.IsSpace(r) }) {
		return fmt.Errorf("it asks for the name %q, which holds blanks or control characters", name)
	}
	for _, pattern := range r.Deny {
		for _, form := range []string{name, strings.ToLower(strings.TrimRight(name, "."))} {
			if name != "" && pattern.MatchString(form) {
				return fmt.Errorf("it asks for the name %q, which cert_deny_list forbids (%s)", name, pattern.Source)
			}
		}
	}
	return nil
}

func (r CSRRules) checkAllowed(name string) error {
	if SameName(name, r.Identity) || slices.ContainsFunc(r.Allow, func(p config.Pattern) bool { return matchesWhole(p, name) }) {
		return nil
	}
	return fmt.Errorf("it asks for the name %q, which is neither this node's nor allowed by cert_allow_list", name)
}

// matchesWhole reports whether a pattern matches all of a name: a match of a part
// would allow every name that contains an allowed one.
func matchesWhole(pattern config.Pattern, name string) bool {
	whole, err := regexp.Compile(`^(?:` + pattern.String() + `)$`)
	return err == nil && (whole.MatchString(name) || whole.MatchString(normalName(name)))
}
