package lab

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// settleLimit is how long Verify waits for servers that were told to restart
// or to stop: go-choria's longest wait is 11 s.
const settleLimit = 30 * time.Second

// State is where a server is.
type State string

// The states of a server.
const (
	InService State = "in service"    // in production, everything as it should be
	Wrong     State = "not in order"  // in production, but see Problem
	Waiting   State = "still waiting" // in provisioning
	Ended     State = "ended"         // its process is not there
	Lost      State = "lost"          // told to restart, and did not come up
)

// Finding is what Verify saw of one server.
type Finding struct {
	Node    string
	State   State
	Seen    []string // what is as it should be, in words
	Problem string   // why it is not in service
}

// Verify says of each server whether it is in service: it answers in its
// production collective, and the broker and the files in its directory agree
// that it uses the credentials it was given. It looks from outside and waits
// for servers that are restarting. The error is about the looking; what was
// found wrong is in the findings.
func (l *Lab) Verify(ctx context.Context) ([]Finding, error) {
	states, err := l.settle(ctx)
	if err != nil {
		return nil, fmt.Errorf("verifying: %w", err)
	}
	var up []string
	for _, name := range l.names {
		if states[name] == InService {
			up = append(up, name)
		}
	}
	replies, err := l.ask(ctx, up)
	if err != nil {
		return nil, fmt.Errorf("verifying: %w", err)
	}
	connections, err := l.broker.connections(ctx)
	if err != nil {
		return nil, fmt.Errorf("verifying: %w", err)
	}

	findings := make([]Finding, len(l.names))
	for i, name := range l.names {
		findings[i] = Finding{Node: name, State: states[name]}
		reply, replied := replies[name]
		switch {
		case states[name] != InService:
			findings[i].Problem = l.reason(name, states[name])
		case !replied:
			findings[i].fail(fmt.Errorf("no reply in collective %s", l.site.Collective))
		default:
			findings[i].check(l, reply, connections)
		}
	}
	return findings, nil
}

func (f *Finding) fail(err error) {
	f.State = Wrong
	f.Problem = err.Error()
}

// check holds what the server says against what the broker and the files say.
func (f *Finding) check(l *Lab, said inventory, connections []connection) {
	if said.Problem != "" {
		f.fail(fmt.Errorf("its inventory is refused: %s", said.Problem))
		return
	}
	if !slices.Contains(said.Collectives, l.site.Collective) {
		f.fail(fmt.Errorf("it is in collectives %v, not in %s", said.Collectives, l.site.Collective))
		return
	}
	if l.release != "" && said.Version != l.release {
		f.fail(fmt.Errorf("it runs version %s, not %s", said.Version, l.release))
		return
	}
	seen, err := connectionOf(f.Node, l.site.Collective, connections)
	if err != nil {
		f.fail(err)
		return
	}
	credentials, err := l.model.verify(f.Node, seen)
	if err != nil {
		f.fail(err)
		return
	}
	f.Seen = append([]string{fmt.Sprintf("answers in collective %s with version %s", l.site.Collective, said.Version)}, credentials...)
}

// connectionOf finds the one connection of a server, which must be in
// production and nowhere else.
func connectionOf(node, collective string, all []connection) (own connection, err error) {
	found := 0
	for _, c := range all {
		if c.name != node {
			continue
		}
		found++
		own = c
	}
	switch {
	case found != 1:
		return own, fmt.Errorf("the broker has %d connections of that name", found)
	case own.account == "provisioning" || own.provisioning():
		return own, errors.New("the broker has it in provisioning")
	case !own.listens(collective, node):
		return own, fmt.Errorf("it takes no requests in collective %s", collective)
	}
	return own, nil
}

func (l *Lab) reason(name string, state State) string {
	switch state {
	case Waiting:
		return "it is in provisioning"
	case Ended:
		return "its process is not there; it last said: " + lastLine(l.process(name).log())
	default:
		return "it was told to restart; it last said: " + lastLine(l.process(name).log())
	}
}

// settle waits until no server is on its way to somewhere else.
func (l *Lab) settle(ctx context.Context) (states map[string]State, err error) {
	ctx, cancel := context.WithTimeout(ctx, settleLimit)
	defer cancel()
	var problem error
	err = poll(ctx, func() bool {
		states, problem = l.states()
		if problem != nil {
			return true
		}
		for _, state := range states {
			if state == Lost {
				return false
			}
		}
		return true
	})
	if errors.Is(err, context.DeadlineExceeded) {
		err = nil // a node that is lost now stays so
	}
	return states, errors.Join(err, problem)
}

func (l *Lab) states() (map[string]State, error) {
	states := map[string]State{}
	for _, name := range l.names {
		if !l.Running(name) {
			states[name] = Ended
			continue
		}
		entries, err := journal{l.NodeDir(name)}.read()
		if err != nil {
			return nil, err
		}
		states[name] = stateAfter(entries)
	}
	return states, nil
}

// stateAfter reads a journal: where the last start led, unless something since
// sent the server elsewhere.
func stateAfter(entries []Action) State {
	state := Lost
	for _, e := range entries {
		switch {
		case e.Started == "production":
			state = InService
		case e.Started != "":
			state = Waiting
		case e.Status == 0 && leaves(e.Name):
			state = Lost
		}
	}
	return state
}

// leaves reports whether an action ends the server's process or replaces it.
func leaves(action string) bool {
	switch action {
	case "choria_provision#restart", "choria_provision#shutdown", "choria_provision#reprovision", "choria_provision#release_update":
		return true
	}
	return false
}
