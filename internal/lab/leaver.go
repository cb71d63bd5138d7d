package lab

import (
	"errors"
	"net"
	"reflect"

	"github.com/choria-io/go-choria/broker/network"
	natsd "github.com/nats-io/nats-server/v2/server"
)

// tolerateLeavers keeps clients that go away while they are let in from ending
// the broker's process: go-choria's authentication asks each for its address, and
// takes it for granted that one that was closed meanwhile has one. It is for a
// server that was not started yet.
func tolerateLeavers(server *network.Server) error {
	options := optionsOf(server)
	if options == nil || options.CustomClientAuthentication == nil {
		return errors.New("this go-choria keeps the options of its broker elsewhere")
	}
	options.CustomClientAuthentication = leavers{options.CustomClientAuthentication}
	return nil
}

// optionsOf returns nil when they are not where they were in go-choria 0.30,
// which has no other way to them.
func optionsOf(server *network.Server) *natsd.Options {
	field := reflect.ValueOf(server).Elem().FieldByName("opts")
	if !field.IsValid() || field.Type() != reflect.TypeFor[*natsd.Options]() {
		return nil
	}
	return (*natsd.Options)(field.UnsafePointer())
}

// leavers is an authentication that shows a client's address as it was at first.
type leavers struct{ natsd.Authentication }

// Check implements natsd.Authentication.
func (l leavers) Check(client natsd.ClientAuthentication) bool {
	from := client.RemoteAddress()
	return from != nil && l.Authentication.Check(leaver{client, from})
}

type leaver struct {
	natsd.ClientAuthentication
	from net.Addr
}

// RemoteAddress implements natsd.ClientAuthentication.
func (l leaver) RemoteAddress() net.Addr { return l.from }
