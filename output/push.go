package output

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

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/push"
	dto "github.com/prometheus/client_model/go"
)

// maxAnswer bounds what is read of a gateway's answer, in bytes.
const maxAnswer = 4 << 10

// Pusher puts metrics into one group of a Pushgateway: that of job, site, host
// and the configured grouping. Process and node are no part of it, so that runs
// replace each other's metrics rather than pile up.
type Pusher struct {
	cfg        config.Pushgateway
	site, host string
}

// NewPusher returns a pusher for the group of that site, which may be empty, and
// of one of the hosts that share the state. Without host there is one group,
// wherever a run takes place.
func NewPusher(cfg config.Pushgateway, site, host string) *Pusher {
	return &Pusher{cfg, strings.ToValidUTF8(site, "\uFFFD"), strings.ToValidUTF8(host, "\uFFFD")}
}

// Push replaces the group by what g gathers. It takes no longer than the
// configured timeout, whatever the gateway does; its error is a warning, a run
// is what it is without it. No error shows the password or a header.
func (p *Pusher) Push(ctx context.Context, g prometheus.Gatherer) error {
	return p.do(ctx, func(ctx context.Context, pusher *push.Pusher) error {
		return pusher.Gatherer(siteless{g}).PushContext(ctx)
	})
}

// Delete removes the group.
func (p *Pusher) Delete(ctx context.Context) error {
	return p.do(ctx, func(_ context.Context, pusher *push.Pusher) error { return pusher.Delete() })
}

func (p *Pusher) do(ctx context.Context, send func(context.Context, *push.Pusher) error) error {
	ctx, cancel := context.WithTimeout(ctx, p.timeout())
	defer cancel()
	target, err := p.target()
	if err != nil {
		return fmt.Errorf("pushgateway.url: %w", err)
	}
	shown := target.Redacted()
	client, err := p.client(ctx, target)
	if err != nil {
		return fmt.Errorf("pushgateway: %w", err)
	}
	defer client.CloseIdleConnections()

	pusher := push.New(shown, p.cfg.Job).Client(client).Header(p.headers())
	for name, value := range p.labels() { // so that push sees a label that metrics have too
		pusher.Grouping(name, value)
	}
	if err := p.authenticate(pusher); err != nil {
		return fmt.Errorf("pushgateway.password_file: %w", err)
	}
	if err := send(ctx, pusher); err != nil {
		return fmt.Errorf("metrics did not reach the Pushgateway %s: %w", shown, p.plain(ctx, err))
	}
	return nil
}

// timeout is the configured one; a push without any end is no choice.
func (p *Pusher) timeout() time.Duration {
	if p.cfg.Timeout.Duration > 0 {
		return p.cfg.Timeout.Duration
	}
	return 5 * time.Second
}

// plain says what went wrong without the words around it that only repeat the
// address, and with the gateway's own words escaped and bounded.
func (p *Pusher) plain(ctx context.Context, err error) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("no answer within %s: %w", p.timeout(), context.DeadlineExceeded)
	}
	var status *unexpected
	if errors.As(err, &status) {
		return status
	}
	var located *url.Error
	if errors.As(err, &located) {
		return located.Err
	}
	return err
}

func (p *Pusher) labels() map[string]string {
	labels := map[string]string{"site": p.site}
	maps.Copy(labels, p.cfg.Grouping)
	labels["site"] = p.site // the group of a site is never another's
	if p.host != "" {
		labels["host"] = p.host // nor that of a host: its counters are its own
	}
	return labels
}

// simple are values that stand in a URL's path as they are. Everything else
// goes in base64: client_golang's own encoding turns a blank into "+", which
// the Pushgateway takes for a plus sign, and would let "." and ".." change the
// path.
var simple = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9._-]*$`)

// target is the URL of the group.
func (p *Pusher) target() (*url.URL, error) {
	base, err := url.Parse(p.cfg.URL)
	if err != nil {
		return nil, errors.New("it cannot be parsed") // url's error repeats it, secrets included
	}
	if base.Host == "" {
		return nil, errors.New("it names no host")
	}
	if base.Path == "" {
		base.Path = "/" // JoinPath would make a relative one
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
	case simple.MatchString(value):
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
	password, err := config.NewSecretFile(p.cfg.PasswordFile).Reveal()
	if err != nil {
		return err
	}
	pusher.BasicAuth(p.cfg.Username, password)
	return nil
}

// client sends every request to target and nowhere else: a redirect would carry
// the password along.
func (p *Pusher) client(ctx context.Context, target *url.URL) (*gateway, error) {
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
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &gateway{ctx, target, &http.Client{Transport: transport, CheckRedirect: stay}}, nil
}

// gateway is the HTTP client of one push.
type gateway struct {
	ctx    context.Context
	target *url.URL
	*http.Client
}

// Do implements push.HTTPDoer.
func (g *gateway) Do(r *http.Request) (*http.Response, error) {
	r = r.WithContext(g.ctx) // push's Delete takes none
	r.URL = g.target
	if host := r.Header.Get("Host"); host != "" {
		r.Host = host
	}
	answer, err := g.Client.Do(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	switch {
	case answer.StatusCode != http.StatusOK && answer.StatusCode != http.StatusAccepted:
		return nil, &unexpected{answer.Status, string(text)}
	case err == nil && isPage(answer, text):
		return nil, &unexpected{answer.Status + " with an HTML page, as a login or a proxy does: pushgateway.url leads to no Pushgateway", string(text)}
	}
	answer.Body = http.NoBody
	return answer, nil
}

// isPage recognizes what people are shown; a Pushgateway answers a push with
// nothing.
func isPage(answer *http.Response, text []byte) bool {
	return strings.Contains(answer.Header.Get("Content-Type"), "html") || bytes.HasPrefix(bytes.TrimSpace(text), []byte("<"))
}

// unexpected is an answer that is no success.
type unexpected struct{ status, text string }

func (u *unexpected) Error() string {
	if u.text == "" {
		return "it answered " + Escape(u.status)
	}
	return "it answered " + Escape(u.status) + ": " + EscapeTo(strings.TrimSpace(u.text), 200)
}

// siteless gathers metrics without their site, which the group says already:
// the gateway adds it to every metric itself.
type siteless struct{ prometheus.Gatherer }

// Gather implements prometheus.Gatherer.
func (s siteless) Gather() ([]*dto.MetricFamily, error) {
	families, err := s.Gatherer.Gather()
	for _, family := range families {
		for _, metric := range family.Metric {
			metric.Label = slices.DeleteFunc(metric.Label, func(l *dto.LabelPair) bool { return l.GetName() == "site" })
		}
	}
	return families, err
}
