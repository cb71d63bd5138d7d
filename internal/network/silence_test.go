package network

import (
	"errors"
	"strings"
	"testing"
	"time"

	natsd "github.com/nats-io/nats-server/v2/server"
)

// TestABroadcastThatCannotReachANodeSaysWhy uses brokers that forbid a part of
// discovery, or have the client in another account than the nodes.
func TestABroadcastThatCannotReachANodeSaysWhy(t *testing.T) {
	const target = "provisioning.broadcast.agent.discovery"
	permissions := func(p natsd.Permissions) func(*natsd.Options) {
		return func(o *natsd.Options) {
			o.Users = []*natsd.User{{Username: "provisioner", Password: "secret", Permissions: &p}}
			o.NoAuthUser = "provisioner"
		}
	}
	account := func(name string) func(*natsd.Options) {
		return func(o *natsd.Options) {
			a := natsd.NewAccount(name)
			o.Accounts = []*natsd.Account{a}
			o.Users = []*natsd.User{{Username: "provisioner", Password: "secret", Account: a}}
			o.NoAuthUser = "provisioner"
		}
	}
	tests := []struct {
		name   string
		broker func(*natsd.Options)
		want   error
		text   string
	}{
		{"publishing is forbidden", permissions(natsd.Permissions{Publish: &natsd.SubjectPermission{Deny: []string{target}}}), ErrForbidden, "publishing to " + target},
		{"only other subjects may be published to", permissions(natsd.Permissions{Publish: &natsd.SubjectPermission{Allow: []string{"other.>"}}}), ErrForbidden, "publishing to " + target},
		{"subscribing is forbidden", permissions(natsd.Permissions{Subscribe: &natsd.SubjectPermission{Deny: []string{"provisioning.reply.>"}}}), ErrForbidden, "subscribing to provisioning.reply."},
		{"the production account", account("choria"), ErrProduction, "production account"},
		{"another account", account("provisioning"), nil, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			conn := dial(t, broker(t, tt.broker))
			for range 2 { // what was told once is told again
				senders, err := conn.Broadcast(t.Context(), "choria_provision", Window{First: 50 * time.Millisecond, Quiet: time.Millisecond, Total: time.Hour})
				if !errors.Is(err, tt.want) || len(senders) != 0 {
					t.Errorf("got %v, %v, want %v", senders, err, tt.want)
				}
				if err != nil && !strings.Contains(err.Error(), tt.text) {
					t.Errorf("got %q, want it to say %q", err, tt.text)
				}
			}
		})
	}
}
