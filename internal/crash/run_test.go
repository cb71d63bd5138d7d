package crash

import (
	"encoding/json"
	"io"
	"strings"
)

// run starts one run over the nodes that wait and serves it until it ends or is
// killed.
func (s *story) run() {
	s.order.Seen = s.fleet.waiting()
	cmd, err := s.order.command()
	if err != nil {
		s.errorf("%v", err)
		return
	}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		s.errorf("%v", err)
		return
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		s.errorf("%v", err)
		return
	}
	if err := cmd.Start(); err != nil {
		s.errorf("%v", err)
		return
	}
	killed := s.serve(stdin, stdout, cmd.Process.Kill)
	err = cmd.Wait()
	if killed {
		s.holdClaims(cmd.Process.Pid)
		s.broker.endSessions(s.t, s.order.Records)
	}
	s.said = append(s.said, s.order.saw()+stderr.String())
	if !killed && err != nil {
		s.errorf("a run that was not killed ended with %v", err)
	}
}

// saw says in words what a run was told.
func (o order) saw() string {
	text := "run over " + strings.Join(o.Seen, ", ")
	if o.Force {
		text += " by force"
	}
	return text + ": "
}

// serve answers a run's messages. A call is carried out before its point is
// counted: killed there, the run has been obeyed and does not know it.
func (s *story) serve(in io.Writer, out io.Reader, kill func() error) (killed bool) {
	messages, answers := json.NewDecoder(out), json.NewEncoder(in)
	for {
		var m message
		if err := messages.Decode(&m); err != nil {
			return false
		}
		var r reaction
		if m.Call != nil {
			r = s.fleet.act(*m.Call)
		}
		if s.come(m.Point) {
			if err := kill(); err != nil {
				s.errorf("kill: %v", err)
			}
			return true
		}
		if err := answers.Encode(r); err != nil {
			return false
		}
	}
}
