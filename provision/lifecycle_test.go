package provision_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"choria-provision/internal/fake"
	"choria-provision/provision"

	"github.com/google/go-cmp/cmp"
)

func TestLifecycle(t *testing.T) {
	t.Parallel()
	shut, again := provision.Lifecycle.Shutdown, provision.Lifecycle.Restart
	tests := []struct {
		name   string
		act    func(provision.Lifecycle, context.Context, string) error
		action string
		script fake.Script
		calls  int
		want   error
		notice string
	}{
		{"shutdown", shut, shutdown, nil, 1, nil, ""},
		{"restart", again, restart, nil, 1, nil, ""},
		{"a server that ends before it replies", shut, shutdown, lostThenGone, 3, nil, "was leaving already"},
		{"a server that is not there", shut, shutdown, gone, 3, provision.ErrGone, ""},
		{"a server that does not answer", again, restart, fake.Silent, 3, provision.ErrNoReply, ""},
		{"a server that says no", again, restart, fake.Refusing("enables provisioning"), 3, provision.ErrRefused, ""},
		{"twins", again, restart, fake.Twice, 1, provision.ErrTwins, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, nil)
				if tt.script != nil {
					b.fleet.On(node1, tt.action, tt.script)
				}
				var notice string
				tell := func(event any) {
					if told, ok := event.(provision.Notice); ok {
						notice += told.Node + ": " + told.Text
					}
				}
				l := provision.Lifecycle{RPC: b.fleet, Config: b.Config, May: b.May, Tell: tell, Stop: t.Context()}
				err := tt.act(l, t.Context(), node1)
				if !errors.Is(err, tt.want) || (tt.want == nil) != (err == nil) {
					t.Errorf("got %v, want %v", err, tt.want)
				}
				if (notice == "") != (tt.notice == "") || !strings.Contains(notice, tt.notice) {
					t.Errorf("got the notice %q, want one with %q", notice, tt.notice)
				}
				if diff := cmp.Diff(repeat(tt.action, tt.calls), b.fleet.Actions(node1)); diff != "" {
					t.Errorf("calls (-want +got):\n%s", diff)
				}
			})
		})
	}
}
