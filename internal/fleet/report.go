package fleet

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"syscall"
	"time"
)

// Report is what a fleet saw so far.
type Report struct {
	Groups   []Group        `json:"groups"`   // by kind, the good ones first
	Actions  map[string]int `json:"actions"`  // requests, by AGENT#ACTION
	Problems []string       `json:"problems"` // what was not as it should be, NODE: WHAT; at most 20
	Troubled int            `json:"troubled"` // nodes with problems
	Took     time.Duration  `json:"took"`     // from the first discovery to the last restart, ns
	CPU      time.Duration  `json:"cpu"`      // of the fleet's process, ns
	MaxRSS   int64          `json:"max_rss"`  // of the same, bytes
}

// Group counts the nodes of one kind.
type Group struct {
	Kind      Kind `json:"kind"`
	Nodes     int  `json:"nodes"`
	Untouched int  `json:"untouched"` // never configured
	Once      int  `json:"once"`      // configured exactly once for each restart
	Half      int  `json:"half"`      // configured and not restarted since
	More      int  `json:"more"`      // configured more often
	Restarted int  `json:"restarted"` // took a restart
	ShutDown  int  `json:"shut_down"` // stopped for good
	Comebacks int  `json:"comebacks"` // restarts after the first
}

const maxProblems = 20

// Report looks at every node. It verifies what each was given as the server
// would at its next start, which takes time: some 0.2 ms a node.
func (f *Fleet) Report() Report {
	r := Report{Actions: map[string]int{}}
	groups := map[Kind]*Group{}
	for _, n := range f.nodes {
		g := groups[n.kind]
		if g == nil {
			g = &Group{Kind: n.kind}
			groups[n.kind] = g
		}
		problems := f.count(n, g, r.Actions)
		if len(problems) > 0 {
			r.Troubled++
		}
		for _, p := range problems {
			if len(r.Problems) < maxProblems {
				r.Problems = append(r.Problems, n.name+": "+p)
			}
		}
	}
	for _, l := range f.links {
		f.mu.Lock()
		if l.problem != nil {
			r.Problems = append(r.Problems, l.problem.Error())
		}
		f.mu.Unlock()
	}
	for _, kind := range slices.Sorted(maps.Keys(groups)) {
		r.Groups = append(r.Groups, *groups[kind])
	}
	if last := f.last.Load(); last > 0 {
		r.Took = time.Duration(last - f.first.Load())
	}
	r.CPU, r.MaxRSS = usage()
	return r
}

// count adds a node to its group and to the actions, and returns its problems.
func (f *Fleet) count(n *node, g *Group, actions map[string]int) []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	for action, times := range n.counts {
		actions[action] += times
	}
	g.Nodes++
	times := n.before
	problems := slices.Clone(n.problems)
	for _, machine := range n.machines {
		s := machine.State()
		times += s.Times
		if s.Times > 0 {
			if err := f.checkCredentials(n.name, s); err != nil {
				problems = append(problems, err.Error())
			}
		}
	}
	switch times {
	case 0:
		g.Untouched++
	case n.lives:
		g.Once++
	case n.lives + 1:
		g.Half++
	default:
		g.More++
	}
	if n.lives > 0 {
		g.Restarted++
		g.Comebacks += n.lives - 1
	}
	if n.stopped {
		g.ShutDown++
	}
	return problems
}

func usage() (cpu time.Duration, maxRSS int64) {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // of ourselves it always works
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), u.Maxrss * 1024
}

// InService is how many nodes were configured and restarted as they should.
func (r Report) InService() (up int) {
	for _, g := range r.Groups {
		if g.Kind.provisionable() {
			up += g.Restarted
		}
	}
	return up
}

// Provisionable is how many nodes can be brought into service.
func (r Report) Provisionable() (able int) {
	for _, g := range r.Groups {
		if g.Kind.provisionable() {
			able += g.Nodes
		}
	}
	return able
}

// Check says what harm was done: nodes configured twice or left half way,
// faulty ones configured at all, and whatever the nodes noted. How many are in
// service is not its business.
func (r Report) Check() error {
	var errs []error
	for _, g := range r.Groups {
		switch name := g.name(); {
		case g.More > 0:
			errs = append(errs, fmt.Errorf("%d %s nodes were configured more often than they restarted", g.More, name))
		case g.Half > 0:
			errs = append(errs, fmt.Errorf("%d %s nodes were configured and not restarted", g.Half, name))
		case !g.Kind.provisionable() && g.Untouched != g.Nodes:
			errs = append(errs, fmt.Errorf("%d %s nodes were configured", g.Nodes-g.Untouched, name))
		}
	}
	if len(r.Problems) > 0 {
		errs = append(errs, fmt.Errorf("%d nodes saw what they should not, the first: %s", r.Troubled, r.Problems[0]))
	}
	return errors.Join(errs...)
}

func (g Group) name() string {
	if g.Kind == "" {
		return "good"
	}
	return string(g.Kind)
}

// String is the group in a few words.
func (g Group) String() string {
	text := fmt.Sprintf("%d %s nodes: %d configured once and %d restarted", g.Nodes, g.name(), g.Once, g.Restarted)
	if g.Comebacks > 0 {
		text += fmt.Sprintf(", %d times again", g.Comebacks)
	}
	if g.ShutDown > 0 {
		text += fmt.Sprintf(", %d shut down", g.ShutDown)
	}
	return text + fmt.Sprintf(", %d never configured", g.Untouched)
}

// Asked lists the requests by action, as text.
func (r Report) Asked() (lines []string) {
	for _, action := range slices.Sorted(maps.Keys(r.Actions)) {
		lines = append(lines, fmt.Sprintf("%s asked %d times", action, r.Actions[action]))
	}
	return lines
}
