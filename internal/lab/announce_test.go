package lab

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"choria-provision/internal/fleet"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
)

// startHearing starts a lab and returns the startup events of the nodes it
// brought up, by identity.
func startHearing(t *testing.T, o Options) map[string][]*nats.Msg {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startLimit)
	defer cancel()
	l := &Lab{}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	l.names = []string{"node1.example.net"}
	for _, step := range []func(context.Context, Options) error{l.makeDir, l.makeKeys, l.startBroker} {
		if err := step(ctx, o); err != nil {
			t.Fatal(err)
		}
	}
	nc, err := nats.Connect("", nats.InProcessServer(l.broker))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	sub, err := nc.SubscribeSync("choria.lifecycle.event.startup.>")
	if err == nil {
		err = nc.Flush()
	}
	for _, step := range []func(context.Context, Options) error{l.startReleases, l.writeFiles, l.startServers, l.startFleet} {
		err = errors.Join(err, step(ctx, o))
	}
	if err != nil {
		t.Fatal(err)
	}
	heard := map[string][]*nats.Msg{}
	for range o.Nodes + o.Simulate + 1 { // one twin
		m, err := sub.NextMsgWithContext(ctx)
		if err != nil {
			t.Fatalf("%v after %d events", err, len(heard))
		}
		var event struct {
			Subject string `json:"subject"`
		}
		if err := json.Unmarshal(m.Data, &event); err != nil {
			t.Fatal(err)
		}
		heard[event.Subject] = append(heard[event.Subject], m)
	}
	return heard
}

// fields is an event with what differs from event to event reduced to its type.
func fields(t *testing.T, m *nats.Msg, identity string) map[string]any {
	t.Helper()
	var event map[string]any
	if err := json.Unmarshal(m.Data, &event); err != nil {
		t.Fatal(err)
	}
	data, ok := event["data"].(map[string]any)
	if !ok || data["identity"] != identity || event["subject"] != identity || event["id"] != data["id"] {
		t.Errorf("got %s, want an event of %s with one id", m.Data, identity)
	}
	at, err := time.Parse(time.RFC3339, event["time"].(string))
	if stamp, isNumber := data["timestamp"].(float64); err != nil || !isNumber || at.Unix() != int64(stamp) || time.Since(at).Abs() > startLimit {
		t.Errorf("got %s, want it made now, by one clock", m.Data)
	}
	delete(event, "time")
	delete(data, "timestamp")
	for _, names := range []map[string]any{event, data} {
		if id, isText := names["id"].(string); !isText || len(id) != len("9b2dc8b4-2b3c-4a70-8ba2-fbc3a5c0a7b3") {
			t.Errorf("got %s, want ids", m.Data)
		}
		delete(names, "id")
		delete(names, "subject")
		delete(names, "identity")
	}
	return map[string]any{"sent to": m.Subject, "headers": len(m.Header), "event": event}
}

func TestSimulatedNodesAnnounceThemselvesAsRealOnesDo(t *testing.T) {
	t.Parallel()
	for _, enrollment := range []string{Insecure, PKI, Issuer} {
		t.Run(enrollment, func(t *testing.T) {
			t.Parallel()
			const real = "node1.example.net"
			heard := startHearing(t, Options{Nodes: 1, Enrollment: enrollment, Simulate: 4, PerConnection: 3,
				Faults: []fleet.Fault{{Kind: fleet.Twin, Share: 0.25}}})
			if len(heard[real]) != 1 {
				t.Fatalf("got %d events of the real server, want one", len(heard[real]))
			}
			want := fields(t, heard[real][0], real)
			events := 0
			for number := range 4 {
				name := fleet.Name(number)
				if len(heard[name]) == 0 {
					t.Errorf("got no event of %s", name)
				}
				events += len(heard[name])
				for _, m := range heard[name] {
					if diff := cmp.Diff(want, fields(t, m, name)); diff != "" {
						t.Errorf("%s (-real +simulated):\n%s", name, diff)
					}
				}
			}
			if events != 5 {
				t.Errorf("got %d events, want one of each machine", events)
			}
			t.Logf("the real one's: %s %s", heard[real][0].Subject, heard[real][0].Data)
		})
	}
}
