package metrics

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"choria-provision/config"
	"choria-provision/output"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/push"
	dto "github.com/prometheus/client_model/go"
)

// maxResponse bounds how much of a gateway's response is read, in bytes.
const maxResponse = 4 << 10

// defaultTimeout bounds a push for which no timeout is configured.
const defaultTimeout = 5 * time.Second

// Pusher puts metrics into one group of a Pushgateway: that of job, site, host
// and the configured grouping. The process is no part of the group, so that each
// run replaces the metrics of the one before.
type Pusher struct {
	cfg        config.Pushgateway
	site, host string
}

// NewPusher returns a pusher for the group of site, which may be empty, and of
// host, one of the hosts that share the state. Host is empty where the state is
// not shared: all hosts then push to one group.
func NewPusher(cfg config.Pushgateway, site, host string) *Pusher {
	return &Pusher{cfg, strings.ToValidUTF8(site, "\uFFFD"), strings.ToValidUTF8(host, "\uFFFD")}
}

// Push replaces the group by what g gathers and returns within the configured
// timeout, even when the gateway never responds. Its error is a warning: the run
// is done without the push. No error holds the password or a header.
func (p *Pusher) Push(ctx context.Context, g prometheus.Gatherer) error {
	ctx, cancel := context.WithTimeout(ctx, p.timeout())
	defer cancel()
	target, err := p.target()
	if err != nil {
		return fmt.Errorf("pushgateway.url: %w", err)
	}
	shown := target.Redacted()
	client, err := p.client(target)
	if err != nil {
		return fmt.Errorf("pushgateway: %w", err)
	}
	defer client.CloseIdleConnections()

	pusher := push.New(shown, p.cfg.Job).Client(client).Header(p.headers()).Gatherer(withoutSite{g})
	for name, value := range p.labels() { // lets push refuse a label that metrics have too
		pusher.Grouping(name, value)
	}
	if err := p.authenticate(pusher); err != nil {
		return fmt.Errorf("pushgateway.password_file: %w", err)
	}
	if err := pusher.PushContext(ctx); err != nil {
		return fmt.Errorf("metrics did not reach the Pushgateway %s: %w", shown, p.shortError(ctx, err))
	}
	return nil
}

func (p *Pusher) timeout() time.Duration {
	if p.cfg.Timeout.Duration > 0 {
		return p.cfg.Timeout.Duration
	}
	return defaultTimeout
}

// shortError returns the cause of err without the URL that net/http and push add
// to it: the message has it already. The gateway's text is escaped and bounded.
func (p *Pusher) shortError(ctx context.Context, err error) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("no answer within %s: %w", p.timeout(), context.DeadlineExceeded)
	}
	var status *statusError
	if errors.As(err, &status) {
		return status
	}
	var urlError *url.Error
	if errors.As(err, &urlError) {
		return urlError.Err
	}
	return err
}

// labels returns the labels of the group. Site and host replace labels of the
// same name in the configured grouping: two sites, or two hosts with counters of
// their own, would otherwise overwrite each other.
func (p *Pusher) labels() map[string]string {
	labels := map[string]string{"site": p.site}
	maps.Copy(labels, p.cfg.Grouping)
	labels["site"] = p.site
	if p.host != "" {
		labels["host"] = p.host
	}
	return labels
}

// pathSafe matches values that need no encoding in a URL's path. All others are
// sent in base64: client_golang encodes a blank as "+", which the Pushgateway
// reads as a plus sign, and lets "." and ".." change the path.
var pathSafe = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9._-]*$`)

// target returns the URL of the group.
func (p *Pusher) target() (*url.URL, error) {
	base, err := url.Parse(p.cfg.URL)
	if err != nil {
		return nil, errors.New("it cannot be parsed") // the error of url repeats the URL, secrets included
	}
	if base.Host == "" {
		return nil, errors.New("it names no host")
	}
	if base.Path == "" {
		base.Path = "/" // JoinPath would return a relative path
	}
	labels := p.labels()
	parts := append([]string{"metrics"}, component("job", p.cfg.Job)...)
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		parts = append(parts, component(name, labels[name])...)
	}
	return base.JoinPath(parts...), nil
}

func component(name, value string) []string {
	switch {
	case value == "":
		return []string{name + "@base64", "="}
	case pathSafe.MatchString(value):
		return []string{name, value}
	default:
		return []string{name + "@base64", base64.RawURLEncoding.EncodeToString([]byte(value))}
	}
}

func (p *Pusher) headers() http.Header {
	headers := http.Header{}
	for name, value := range p.cfg.Headers {
		headers.Set(name, value)
	}
	return headers
}

func (p *Pusher) authenticate(pusher *push.Pusher) error {
	if p.cfg.Username == "" {
		return nil
	}
	password, err := p.password()
	if err != nil {
		return err
	}
	pusher.BasicAuth(p.cfg.Username, password)
	return nil
}

func (p *Pusher) password() (string, error) { return config.NewSecretFile(p.cfg.PasswordFile).Reveal() }

// client returns an HTTP client that sends every request to target. It follows no
// redirect, which would carry the password to another address.
func (p *Pusher) client(target *url.URL) (*gateway, error) {
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}}
	if p.cfg.CA != "" {
		text, err := os.ReadFile(p.cfg.CA)
		if err != nil {
			return nil, fmt.Errorf("ca: %w", err)
		}
		transport.TLSClientConfig.RootCAs = x509.NewCertPool()
		if !transport.TLSClientConfig.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("ca: %s holds no certificate", p.cfg.CA)
		}
	}
	noRedirect := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &gateway{target, &http.Client{Transport: transport, CheckRedirect: noRedirect}}, nil
}

// gateway is the HTTP client of one push.
type gateway struct {
	target *url.URL
	*http.Client
}

// Do implements push.HTTPDoer.
func (g *gateway) Do(r *http.Request) (*http.Response, error) {
	r.URL = g.target
	if host := r.Header.Get("Host"); host != "" {
		r.Host = host
	}
	response, err := g.Client.Do(r)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxResponse))
	switch {
	case response.StatusCode != http.StatusOK && response.StatusCode != http.StatusAccepted:
		return nil, &statusError{response.StatusCode, response.Status, string(text)}
	case err == nil && isPage(response, text):
		return nil, &statusError{response.StatusCode, response.Status + " with an HTML page, as a login or a proxy does: pushgateway.url leads to no Pushgateway", string(text)}
	}
	response.Body = http.NoBody
	return response, nil
}

// isPage reports whether a response is an HTML page. A login page or a proxy may
// respond 200 to a push, to which a Pushgateway responds with an empty body.
func isPage(response *http.Response, text []byte) bool {
	return strings.Contains(response.Header.Get("Content-Type"), "html") || bytes.HasPrefix(bytes.TrimSpace(text), []byte("<"))
}

// statusError is a response that does not mean success.
type statusError struct {
	code         int
	status, text string
}

func (e *statusError) Error() string {
	if e.text == "" {
		return "it answered " + output.Escape(e.status)
	}
	return "it answered " + output.Escape(e.status) + ": " + output.EscapeTo(strings.TrimSpace(e.text), 200)
}

// withoutSite gathers metrics without the label site. The group has it, and the
// gateway adds the group's labels to every metric.
type withoutSite struct{ prometheus.Gatherer }

// Gather implements prometheus.Gatherer.
func (s withoutSite) Gather() ([]*dto.MetricFamily, error) {
	families, err := s.Gatherer.Gather()
	for _, family := range families {
		for _, metric := range family.Metric {
			metric.Label = slices.DeleteFunc(metric.Label, func(l *dto.LabelPair) bool { return l.GetName() == "site" })
		}
	}
	return families, err
}
