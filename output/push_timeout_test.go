package output

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"choria-provision/config"

	"github.com/prometheus/client_golang/prometheus/push"
)

// Whatever a gateway does, a push may take its timeout and no longer; a push
// without a configured one has five seconds.
func TestAPushTakesExactlyItsTimeout(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name       string
		configured time.Duration
		caller     time.Duration // what the caller has left; 0: no end
		want       time.Duration
	}{
		{"configured", 7 * time.Second, 0, 7 * time.Second},
		{"not configured", 0, 0, 5 * time.Second},
		{"no choice", -time.Second, 0, 5 * time.Second},
		{"the caller has less", 7 * time.Second, 3 * time.Second, 3 * time.Second},
		{"the caller has more", 7 * time.Second, time.Minute, 7 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx := t.Context()
				if tt.caller > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, tt.caller)
					defer cancel()
				}
				cfg := pushConfig("http://127.0.0.1:9091")
				cfg.Timeout = config.Duration{Duration: tt.configured}
				began := time.Now()
				err := NewPusher(cfg, "s", "").do(ctx, func(ctx context.Context, _ *push.Pusher) error {
					<-ctx.Done() // a gateway that never answers
					return ctx.Err()
				})
				if took := time.Since(began); took != tt.want || !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("took %s (%v), want exactly %s", took, err, tt.want)
				}
			})
		})
	}
}

// hopeless is far longer than a push with a timeout of milliseconds takes on any
// machine: what is not over by then has no end.
const hopeless = 20 * time.Second

func TestASilentGatewayHoldsNoPushUp(t *testing.T) {
	t.Parallel()
	_, reg := newTestMetrics("s")
	for name, act := range map[string]func(*Pusher) error{
		"push":   func(p *Pusher) error { return p.Push(context.Background(), reg) },
		"delete": func(p *Pusher) error { return p.Delete(context.Background()) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			listener, err := net.Listen("tcp", "127.0.0.1:0") // nothing accepts: connections wait in its queue
			if err != nil {
				t.Fatal(err)
			}
			defer listener.Close() // ends what is still waiting
			cfg := pushConfig("http://" + listener.Addr().String())
			cfg.Timeout = config.Duration{Duration: 20 * time.Millisecond}
			ended := make(chan error, 1)
			go func() { ended <- act(NewPusher(cfg, "s", "")) }()
			select {
			case err := <-ended:
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("got %v, want the timeout", err)
				}
			case <-time.After(hopeless):
				t.Errorf("not over after %s, want it ended by its timeout of %s", hopeless, cfg.Timeout.Duration)
			}
		})
	}
}
