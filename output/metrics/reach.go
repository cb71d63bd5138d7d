package metrics

import (
	"context"
	"errors"
	"fmt"
	"net/http"
)

// The causes of a push that would fail.
var (
	ErrGatewayAway    = errors.New("the Pushgateway cannot be reached")
	ErrGatewayRefuses = errors.New("the Pushgateway refuses our credentials")
	ErrNoGateway      = errors.New("this is no Pushgateway")
)

// Target is the address of the group, without credentials.
func (p *Pusher) Target() string {
	target, err := p.target()
	if err != nil {
		return ""
	}
	return target.Redacted()
}

// Check asks for the group as a push would, and pushes nothing: a Pushgateway
// answers that this method is none of those it knows there. The error is
// ErrGatewayAway, ErrGatewayRefuses or ErrNoGateway.
func (p *Pusher) Check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, p.timeout())
	defer cancel()
	status, err := p.ask(ctx)
	var refusal *statusError
	switch {
	case errors.As(err, &refusal) && (status == http.StatusUnauthorized || status == http.StatusForbidden):
		return fmt.Errorf("%w: %w", ErrGatewayRefuses, refusal)
	case errors.As(err, &refusal) && status != http.StatusMethodNotAllowed:
		return fmt.Errorf("%w: %w", ErrNoGateway, refusal)
	case err != nil && refusal == nil:
		return fmt.Errorf("%w: %w", ErrGatewayAway, p.shortError(ctx, err))
	default:
		return nil
	}
}

// ask makes one GET of the group and returns the status of the answer.
func (p *Pusher) ask(ctx context.Context) (status int, err error) {
	target, err := p.target()
	if err != nil {
		return 0, err
	}
	client, err := p.client(target)
	if err != nil {
		return 0, err
	}
	defer client.CloseIdleConnections()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), nil)
	if err != nil {
		return 0, err
	}
	request.Header = p.headers()
	if p.cfg.Username != "" {
		password, err := p.password()
		if err != nil {
			return 0, err
		}
		request.SetBasicAuth(p.cfg.Username, password)
	}
	_, err = client.Do(request)
	var refusal *statusError
	if errors.As(err, &refusal) {
		status = refusal.code
	}
	return status, err
}
