package lab

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	natsd "github.com/nats-io/nats-server/v2/server"
)

// connzLimit is how many connections a broker is asked for at once.
const connzLimit = 10_000

// connection is what a broker tells of one of its clients.
type connection struct {
	name        string
	account     string
	user        string // the identity it let in, where tokens say it
	subject     string // of the client's certificate, if it showed one
	certificate string // SHA-256 in hex of the same
	subjects    []string
}

// listens reports whether it takes requests to a node of a collective:
// choria/connection.go of go-choria, NodeDirectedTarget.
func (c connection) listens(collective, node string) bool {
	for _, subject := range c.subjects {
		if subject == collective+".node."+node {
			return true
		}
	}
	return false
}

// provisioning reports whether it takes any request in provisioning.
func (c connection) provisioning() bool {
	for _, subject := range c.subjects {
		if strings.HasPrefix(subject, "provisioning.") {
			return true
		}
	}
	return false
}

func readConnz(z *natsd.Connz) []connection {
	var list []connection
	for _, c := range z.Conns {
		seen := connection{name: c.Name, account: c.Account, user: c.AuthorizedUser, subjects: c.Subs}
		if len(c.TLSPeerCerts) > 0 {
			seen.subject = c.TLSPeerCerts[0].Subject
			seen.certificate = c.TLSPeerCerts[0].CertSha256
		}
		list = append(list, seen)
	}
	return list
}

func (b *choriaBroker) connections(ctx context.Context) ([]connection, error) {
	url := fmt.Sprintf("http://127.0.0.1:%d/connz?auth=1&subs=1&limit=%d", b.monitor, connzLimit)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("asking the broker for its connections: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	var z natsd.Connz
	if err := json.NewDecoder(response.Body).Decode(&z); err != nil {
		return nil, fmt.Errorf("asking the broker for its connections: %w", err)
	}
	return readConnz(&z), nil
}

// fingerprint is the form in which a broker names certificates.
func fingerprint(der []byte) string {
	sum := sha256.Sum256(der)
	return hex.EncodeToString(sum[:])
}
