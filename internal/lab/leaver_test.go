package lab

import (
	"net"
	"testing"

	natsd "github.com/nats-io/nats-server/v2/server"
)

// asking is an authentication that asks for the client's address as go-choria's
// does.
type asking struct{ from []string }

func (a *asking) Check(client natsd.ClientAuthentication) bool {
	a.from = append(a.from, client.RemoteAddress().String(), client.RemoteAddress().String())
	return true
}

// leaving is a client whose connection is closed after it was asked for its
// address some times.
type leaving struct {
	natsd.ClientAuthentication
	times int
}

func (l *leaving) RemoteAddress() net.Addr {
	if l.times--; l.times < 0 {
		return nil
	}
	return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 4222}
}

func TestClientThatLeavesWhileItIsLetIn(t *testing.T) {
	t.Parallel()
	inner := &asking{}
	if !(leavers{inner}).Check(&leaving{times: 1}) {
		t.Error("got it refused, want what the authentication says")
	}
	for _, from := range inner.from {
		if from != "127.0.0.1:4222" {
			t.Errorf("got address %s, want the one it came from", from)
		}
	}
	if (leavers{inner}).Check(&leaving{times: 0}) {
		t.Error("got one let in that had left before, want it refused")
	}
}

func TestBrokerToleratesLeavers(t *testing.T) {
	t.Parallel()
	l := startLab(t, Options{Enrollment: Issuer, Simulate: 1})
	options := optionsOf(l.broker.(*choriaBroker).Server)
	if _, ok := options.CustomClientAuthentication.(leavers); !ok {
		t.Errorf("got %T, want go-choria's authentication guarded", options.CustomClientAuthentication)
	}
}
