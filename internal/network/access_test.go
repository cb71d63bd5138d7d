package network

import (
	"errors"
	"strings"
	"testing"

	natsd "github.com/nats-io/nats-server/v2/server"
)

// TestAccessThatIsMissingIsNamed uses brokers that forbid a part of what a
// provisioner does, or have the client in another account than the nodes.
func TestAccessThatIsMissingIsNamed(t *testing.T) {
	const events = "choria.lifecycle.event.startup.provision_mode_server"
	user := func(account string, p natsd.Permissions) func(*natsd.Options) {
		return func(o *natsd.Options) {
			a := natsd.NewAccount(account)
			o.Accounts = []*natsd.Account{a}
			o.Users = []*natsd.User{{Username: "provisioner", Password: "secret", Account: a, Permissions: &p}}
			o.NoAuthUser = "provisioner"
		}
	}
	deny := func(subjects ...string) *natsd.SubjectPermission { return &natsd.SubjectPermission{Deny: subjects} }
	tests := []struct {
		name   string
		broker func(*natsd.Options)
		want   error
		texts  []string
	}{
		{"everything is permitted", user("provisioning", natsd.Permissions{}), nil, nil},
		{"requests are forbidden", user("provisioning", natsd.Permissions{Publish: deny("provisioning.node.>")}), ErrForbidden, []string{"publishing to provisioning.node."}},
		{"replies are forbidden", user("provisioning", natsd.Permissions{Subscribe: deny("provisioning.reply.>")}), ErrForbidden, []string{"subscribing to provisioning.reply."}},
		{"two are forbidden", user("provisioning", natsd.Permissions{Publish: deny("provisioning.node.>"), Subscribe: deny(events)}), ErrForbidden, []string{"subscribing to " + events, "publishing to provisioning.node."}},
		{"the production account", user("choria", natsd.Permissions{}), ErrProduction, []string{"production account"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			conn := dial(t, broker(t, tt.broker))
			for range 2 { // what was forbidden once is told again
				account, err := conn.CheckAccess(t.Context(), events)
				if !errors.Is(err, tt.want) {
					t.Errorf("got %v, want %v", err, tt.want)
				}
				if account == "" && tt.name != "replies are forbidden" { // its own answer is none then
					t.Error("got no account")
				}
				for _, text := range tt.texts {
					if err == nil || !strings.Contains(err.Error(), text) {
						t.Errorf("got %v, want %q in it", err, text)
					}
				}
			}
		})
	}
}
