package lab

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"choria-provision/internal/fleet"
)

// simulation is the process that plays the simulated nodes. It is told what to
// do on its standard input, a line each time: its options first, then anything
// for each report wanted; its end is the process's.
type simulation struct {
	*process
	in  io.WriteCloser
	out *bufio.Reader
}

// errFleet is a fleet that did not come up.
var errFleet = errors.New("the simulated fleet")

// startFleet starts the simulated nodes, if there are to be any, and waits
// until the broker knows them all.
func (l *Lab) startFleet(_ context.Context, o Options) error {
	if o.Simulate == 0 {
		return nil
	}
	options, err := l.fleetOptions(o)
	if err != nil {
		return err
	}
	if l.simulated, err = l.startSimulation(); err != nil {
		return fmt.Errorf("%w: %w", errFleet, err)
	}
	var ready struct{}
	if err := l.simulated.exchange(options, &ready); err != nil {
		return fmt.Errorf("%w: %w; it last said: %s", errFleet, err, lastLine(l.simulated.log()))
	}
	return nil
}

func (l *Lab) fleetOptions(o Options) (fleet.Options, error) {
	token, _ := l.config["token"].(string)
	claims, err := provisioningClaims(l.site, token, o.Upgrades)
	if err != nil {
		return fleet.Options{}, err
	}
	jwt, err := l.model.provisioningJWT(claims)
	options := fleet.Options{
		Nodes: o.Simulate, PerConnection: o.PerConnection, Faults: o.Faults,
		URL: l.site.Broker, TLS: o.Enrollment != Insecure, JWT: jwt, Token: token,
		PKI: o.Enrollment == PKI,
	}
	if o.Enrollment == Issuer {
		options.Issuer, _ = l.config["jwt_verify_cert"].(string)
	}
	return options, err
}

func (l *Lab) startSimulation() (*simulation, error) {
	p := &process{name: fleetName, dir: filepath.Join(l.dir, "simulated"), done: make(chan struct{})}
	if err := os.Mkdir(p.dir, 0o700); err != nil {
		return nil, err
	}
	log, err := openLog(p.log())
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	p.cmd = exec.Command(filepath.Join(l.dir, "bin", fleetName))
	p.cmd.Dir, p.cmd.Env, p.cmd.Stderr = "/", environment(), log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a terminal's Ctrl-C is not for nodes
	in, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, ours, err := os.Pipe() // os/exec would close its own before the last line was read
	if err != nil {
		return nil, err
	}
	defer func() { _ = ours.Close() }()
	p.cmd.Stdout = ours
	if err := p.cmd.Start(); err != nil {
		return nil, errors.Join(err, out.Close())
	}
	go func() {
		defer close(p.done)
		_ = p.cmd.Wait() // how it ended is in its log
	}()
	return &simulation{p, in, bufio.NewReader(out)}, nil
}

// exchange writes one line and reads one.
func (s *simulation) exchange(question, answer any) error {
	text, err := json.Marshal(question)
	if err != nil {
		return err
	}
	if _, err := s.in.Write(append(text, '\n')); err != nil {
		return err
	}
	line, err := s.out.ReadBytes('\n')
	if err != nil {
		return err
	}
	return json.Unmarshal(line, answer)
}

func (s *simulation) stop() error {
	_ = s.in.Close() // its end is the process's
	return s.end()
}

// Simulated is what the simulated nodes saw so far; a lab without any has the
// zero one.
func (l *Lab) Simulated() (r fleet.Report, err error) {
	if l.simulated == nil {
		return r, nil
	}
	l.asking.Lock()
	defer l.asking.Unlock()
	if err := l.simulated.exchange("report", &r); err != nil {
		return r, fmt.Errorf("%w: %w; it last said: %s", errFleet, err, lastLine(l.simulated.log()))
	}
	return r, nil
}

// runFleet is the process of the simulated nodes.
func runFleet(in io.Reader, out io.Writer) error {
	questions := json.NewDecoder(in)
	var options fleet.Options
	if err := questions.Decode(&options); err != nil {
		return err
	}
	nodes, err := fleet.Start(options)
	if err != nil {
		return err
	}
	defer nodes.Close()
	answers := json.NewEncoder(out)
	if err := answers.Encode(struct{}{}); err != nil {
		return err
	}
	for {
		var question string
		switch err := questions.Decode(&question); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		if err := answers.Encode(nodes.Report()); err != nil {
			return err
		}
	}
}
