package fleet

import (
	"encoding/json"
	"strings"
	"testing"

	"choria-provision/internal/fake"

	wire "github.com/choria-io/go-choria/providers/agent/mcorpc/golang/provision"
)

func TestNodesCheckWhatTheyAreGiven(t *testing.T) {
	t.Parallel()
	const good = `{"identity":"sim1.example.net","plugin.choria.server.provision":"0"}`
	tests := []struct {
		name    string
		options Options
		given   wire.ConfigureRequest
		want    string
	}{
		{"good", Options{}, wire.ConfigureRequest{Configuration: good}, ""},
		{"another's", Options{}, wire.ConfigureRequest{Configuration: strings.ReplaceAll(good, "sim1", "sim2")}, `to be "sim2.example.net"`},
		{"for ever", Options{}, wire.ConfigureRequest{Configuration: strings.ReplaceAll(good, `"0"`, `"1"`)}, "leaves provisioning on"},
		{"no token", Options{Issuer: strings.Repeat("00", 32)}, wire.ConfigureRequest{Configuration: good}, "server JWT"},
		{"no certificate", Options{PKI: true}, wire.ConfigureRequest{Configuration: good}, "certificate is none"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := &Fleet{options: test.options}
			s := fake.State{Configured: test.given, Times: 1}
			err := f.checkSettings("sim1.example.net", s)
			if err == nil {
				err = f.checkCredentials("sim1.example.net", s)
			}
			if (test.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

func TestASecondConfigurationAndAnEarlyRestartAreSeen(t *testing.T) {
	t.Parallel()
	n := &node{name: "sim1.example.net"}
	machine := fake.NewNode(&fake.Site{Token: "t"}, n.name)
	if reply := n.reply(machine, "choria_provision#restart", json.RawMessage(`{"token":"t"}`)); reply.OK {
		t.Error("a restart without a configuration was accepted")
	}
	for range 2 {
		if reply := n.reply(machine, "choria_provision#configure", json.RawMessage(`{"token":"t","config":"{\"a\":\"b\"}"}`)); !reply.OK {
			t.Fatalf("configure: %s", reply.Message)
		}
	}
	if got := machine.State().Times; got != 2 {
		t.Errorf("got %d configurations, want 2", got)
	}
	if reply := n.reply(machine, "choria_provision#restart", json.RawMessage(`{"token":"wrong"}`)); reply.OK {
		t.Error("a wrong token was accepted")
	}
}
