package network

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/choria-io/go-choria/choria"
	"github.com/choria-io/go-choria/client/choria_provisionclient"
	"github.com/choria-io/go-choria/client/rpcutilclient"
	"github.com/choria-io/go-choria/protocol"
	rpcclient "github.com/choria-io/go-choria/providers/agent/mcorpc/client"
	wire "github.com/choria-io/go-choria/providers/agent/mcorpc/golang/provision"
	"github.com/google/go-cmp/cmp"
)

// asked is one question through go-choria's generated client, which returns
// what the node answered; in is the same question as we put it.
type asked struct {
	name, agent, action string
	in                  any
	stock               func(context.Context, *choria_provisionclient.ChoriaProvisionClient) map[string]any
}

// configureInput has what the agent's DDL makes of absent inputs, too.
var configureInput = map[string]any{
	"token": "t", "config": `{"a":"\u2028"}`, "action_policies": map[string]string{"a.policy": "x\ny"},
	"ecdh_public": "", "opa_policies": struct{}{}, "server_jwt": "",
}

var everyAction = []asked{
	{"jwt", "choria_provision", "jwt", wire.JWTRequest{Token: "t<&>"},
		func(ctx context.Context, c *choria_provisionclient.ChoriaProvisionClient) (out map[string]any) {
			r, err := c.Jwt("t<&>").Do(ctx)
			if err == nil {
				r.EachOutput(func(o *choria_provisionclient.JwtOutput) { out = o.HashMap() })
			}
			return out
		}},
	{"gen25519", "choria_provision", "gen25519", wire.ED25519Request{Token: "t", Nonce: "é"},
		func(ctx context.Context, c *choria_provisionclient.ChoriaProvisionClient) (out map[string]any) {
			r, err := c.Gen25519("é", "t").Do(ctx)
			if err == nil {
				r.EachOutput(func(o *choria_provisionclient.Gen25519Output) { out = o.HashMap() })
			}
			return out
		}},
	{"gencsr", "choria_provision", "gencsr", map[string]string{"token": "t", "cn": "n1"},
		func(ctx context.Context, c *choria_provisionclient.ChoriaProvisionClient) (out map[string]any) {
			r, err := c.Gencsr("t").Cn("n1").Do(ctx)
			if err == nil {
				r.EachOutput(func(o *choria_provisionclient.GencsrOutput) { out = o.HashMap() })
			}
			return out
		}},
	{"configure", "choria_provision", "configure", configureInput,
		func(ctx context.Context, c *choria_provisionclient.ChoriaProvisionClient) (out map[string]any) {
			r, err := c.Configure(`{"a":"\u2028"}`).Token("t").ActionPolicies(map[string]any{"a.policy": "x\ny"}).Do(ctx)
			if err == nil {
				r.EachOutput(func(o *choria_provisionclient.ConfigureOutput) { out = o.HashMap() })
			}
			return out
		}},
	{"release_update", "choria_provision", "release_update", wire.ReleaseUpdateRequest{Token: "t", Repository: "http://127.0.0.1/r", Version: "1.0.0"},
		func(ctx context.Context, c *choria_provisionclient.ChoriaProvisionClient) (out map[string]any) {
			r, err := c.ReleaseUpdate("http://127.0.0.1/r", "t", "1.0.0").Do(ctx)
			if err == nil {
				r.EachOutput(func(o *choria_provisionclient.ReleaseUpdateOutput) { out = o.HashMap() })
			}
			return out
		}},
	{"restart", "choria_provision", "restart", wire.RestartRequest{Token: "t", Splay: 1},
		func(ctx context.Context, c *choria_provisionclient.ChoriaProvisionClient) (out map[string]any) {
			r, err := c.Restart("t").Splay(1).Do(ctx)
			if err == nil {
				r.EachOutput(func(o *choria_provisionclient.RestartOutput) { out = o.HashMap() })
			}
			return out
		}},
	{"shutdown", "choria_provision", "shutdown", wire.ShutdownRequest{Token: "t"},
		func(ctx context.Context, c *choria_provisionclient.ChoriaProvisionClient) (out map[string]any) {
			r, err := c.Shutdown("t").Do(ctx)
			if err == nil {
				r.EachOutput(func(o *choria_provisionclient.ShutdownOutput) { out = o.HashMap() })
			}
			return out
		}},
	{"reprovision", "choria_provision", "reprovision", wire.ReprovisionRequest{Token: "t"},
		func(ctx context.Context, c *choria_provisionclient.ChoriaProvisionClient) (out map[string]any) {
			r, err := c.Reprovision("t").Do(ctx)
			if err == nil {
				r.EachOutput(func(o *choria_provisionclient.ReprovisionOutput) { out = o.HashMap() })
			}
			return out
		}},
	{"inventory", "rpcutil", "inventory", struct{}{}, nil},
}

// heard is what a node understood of a request, less what differs each time.
type heard struct {
	Message                               any
	Caller, Sender, Collective, Agent, To string
	TTL                                   int
	Filter                                []string
}

// TestEveryActionIsAskedAsTheGeneratedClientAsksIt puts each question twice to
// the same node, and compares what the node heard and what both made of its
// answer.
func TestEveryActionIsAskedAsTheGeneratedClientAsksIt(t *testing.T) {
	server := broker(t, nil)
	conn := dial(t, server)
	fw := framework(t, client(t, "provisioner.mcollective", server.ClientURL()))
	node := newMachine(t, server, "n1")
	requests := make(chan heard, 1)
	answer := map[string]any{ // every output that a DDL has a default for
		"message": "<é&\u2028>", "jwt": "x.y.z", "ecdh_public": "é", "directory": "/d", "public_key": "k",
		"signature": "s", "upgradable": true, "number": 1.5,
	}
	node.serve(subject, func(r protocol.Request, replyTo string) {
		requests <- hear(t, r)
		node.reply(r, replyTo, answer)
	})
	for _, tt := range everyAction {
		t.Run(tt.name, func(t *testing.T) {
			stockOut := tt.ask(t, fw)
			stock := <-requests
			data := encoded(tt.in)
			replies, err := conn.Request(within(t, 10*time.Second), "n1", tt.agent, encoded(rpcclient.RPCRequest{Agent: tt.agent, Action: tt.action, Data: data}))
			if err != nil || len(replies) != 1 {
				t.Fatalf("got %v, %v, want one reply", replies, err)
			}
			if diff := cmp.Diff(stock, <-requests); diff != "" {
				t.Errorf("what the node heard (-stock +ours):\n%s", diff)
			}
			var out map[string]any
			if err := json.Unmarshal(replies[0].Data, &out); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(stockOut, out); diff != "" {
				t.Errorf("what the node answered (-stock +ours):\n%s", diff)
			}
		})
	}
}

// oneWorker keeps go-choria's clients from ending a request while further
// workers still subscribe to its replies, which is a data race there.
const oneWorker = 1

func (a asked) ask(t *testing.T, fw *choria.Framework) (out map[string]any) {
	t.Helper()
	ctx := within(t, 10*time.Second)
	if a.stock != nil {
		c, err := choria_provisionclient.New(fw)
		if err != nil {
			t.Fatal(err)
		}
		return a.stock(ctx, c.OptionTargets([]string{"n1"}).OptionWorkers(oneWorker))
	}
	c, err := rpcutilclient.New(fw)
	if err != nil {
		t.Fatal(err)
	}
	r, err := c.OptionTargets([]string{"n1"}).OptionWorkers(oneWorker).Inventory().Do(ctx)
	if err != nil {
		t.Fatal(err)
	}
	r.EachOutput(func(o *rpcutilclient.InventoryOutput) { out = o.HashMap() })
	return out
}

func hear(t *testing.T, r protocol.Request) heard {
	h := heard{Caller: r.CallerID(), Sender: r.SenderID(), Collective: r.Collective(), Agent: r.Agent(), TTL: r.TTL()}
	if filter, _ := r.Filter(); filter != nil {
		h.Filter = append(filter.AgentFilters(), filter.IdentityFilters()...)
	}
	if err := json.Unmarshal(r.Message(), &h.Message); err != nil {
		t.Error(err)
	}
	return h
}
