package network

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	natsd "github.com/nats-io/nats-server/v2/server"
)

func TestDialSaysWhatStoodInTheWay(t *testing.T) {
	closed := listener127(t)
	closed.Close()
	silent := listener127(t)
	t.Cleanup(func() { silent.Close() })
	guarded := broker(t, func(o *natsd.Options) { o.Username, o.Password = "provisioner", "right" })
	untrusted := broker(t, func(o *natsd.Options) { o.TLS, o.TLSConfig = true, serverTLS(t) })

	tests := []struct {
		name string
		url  string
		want error
	}{
		{"nothing listens", "nats://" + closed.Addr().String(), ErrUnreachable},
		{"something accepts and says nothing", "nats://" + silent.Addr().String(), ErrSilent},
		{"no password", guarded.ClientURL(), ErrUnauthorized},
		{"a broker that wants TLS", untrusted.ClientURL(), ErrTLS},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := Dial(t.Context(), client(t, "p.mcollective", tt.url), "test", 3*time.Second)
			if !errors.Is(err, tt.want) {
				t.Fatalf("got %v, want %v", err, tt.want)
			}
			if !strings.Contains(err.Error(), strings.TrimPrefix(tt.url, "nats://")) {
				t.Errorf("got %q, want the broker's address in it", err)
			}
			if errors.Is(err, context.DeadlineExceeded) || strings.Contains(err.Error(), "context") {
				t.Errorf("got %q, want the cause and no context error", err)
			}
		})
	}
}

func TestDialEndsWithItsContext(t *testing.T) {
	silent := listener127(t)
	defer silent.Close()
	ctx, cancel := context.WithCancelCause(t.Context())
	reason := errors.New("stopped")
	go func() {
		if conn, err := silent.Accept(); err == nil {
			t.Cleanup(func() { conn.Close() })
		}
		cancel(reason)
	}()
	if _, err := Dial(ctx, client(t, "p.mcollective", "nats://"+silent.Addr().String()), "test", time.Minute); !errors.Is(err, reason) {
		t.Errorf("got %v, want the reason of the end", err)
	}
}

func listener127(t *testing.T) net.Listener {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return listener
}
