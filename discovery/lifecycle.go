package discovery

import (
	"strings"
	"time"

	"github.com/choria-io/go-choria/lifecycle"
)

// Subscriber hands on the messages of a subject, one at a time, until the
// returned function is called.
type Subscriber interface {
	Subscribe(subject string, take func(data []byte)) (func(), error)
}

// maxEvent bounds what is read as a lifecycle event, in bytes; a real one is a
// tenth of that.
const maxEvent = 64 << 10

// StartupSubject is where nodes announce their start as a component.
func StartupSubject(component string) string { return "choria.lifecycle.event.startup." + component }

// Listen admits each node that announces its start as a component, which for
// nodes that wait is provision_mode_server. Only events of type startup count,
// and only names that a node can have.
//
// go-choria: lifecycle; the subject is choria.lifecycle.event.startup.COMPONENT.
func Listen(s Subscriber, component string, add func(Sighting), tell func(any)) (func(), error) {
	return s.Subscribe(StartupSubject(component), func(data []byte) {
		name, ok := startup(data, component)
		switch {
		case !ok:
		case !ValidIdentity(name):
			tell(Refused{Identity: name, Count: 1, Err: ErrInvalidIdentity})
		default:
			add(Sighting{Identity: name, Seen: time.Now(), Source: ByEvent})
		}
	})
}

// startup reads who started. Anybody in the provisioning network can publish
// here: what is no such event is passed over.
func startup(data []byte, component string) (string, bool) {
	if len(data) > maxEvent {
		return "", false
	}
	event, err := lifecycle.NewFromJSON(data)
	if err != nil || event.Type() != lifecycle.Startup || !strings.EqualFold(event.Component(), component) {
		return "", false
	}
	return event.Identity(), true
}
