package fleet

import (
	"github.com/choria-io/go-choria/lifecycle"
)

// component is what a server in provisioning mode calls itself.
const component = "provision_mode_server"

// announce publishes that a machine of this name starts, as a server does once
// it hears requests (server/lifecycle.go of go-choria). On the way to the broker
// the event stays behind the node's subscription: who acts on it finds the node.
func (l *link) announce(name string) error {
	event, err := lifecycle.New(lifecycle.Startup,
		lifecycle.Identity(name), lifecycle.Component(component), lifecycle.Version(l.fleet.site.Version))
	if err != nil {
		return err
	}
	subject, err := event.Target()
	if err != nil {
		return err
	}
	encoded, err := lifecycle.ToCloudEventV1(event).MarshalJSON()
	if err != nil {
		return err
	}
	return l.nc.Publish(subject, encoded)
}
