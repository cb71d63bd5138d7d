package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// patience is how long an ending child may take before it is killed.
const patience = 5 * time.Second

// process is a server's process. It keeps its id through all restarts.
type process struct {
	name string // of its directory
	dir  string
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
}

func (p *process) log() string { return filepath.Join(p.dir, logFile) }

// startServers starts all servers at once and waits until each waits to be
// provisioned.
func (l *Lab) startServers(ctx context.Context, o Options) error {
	in, out, err := os.Pipe()
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	l.lifeline = out
	genuine, strange, err := l.tokens(o)
	if err != nil {
		return err
	}
	expected := map[string]int{}
	for _, name := range l.names {
		if err := l.startServer(in, name, name, genuine); err != nil {
			return err
		}
		expected[name]++
	}
	if o.Twins {
		if err := l.startServer(in, l.names[0]+".twin", l.names[0], genuine); err != nil {
			return err
		}
		expected[l.names[0]]++
	}
	for i, server := range l.servers {
		name := l.names[i%len(l.names)]
		if err := l.events.awaitStarts(ctx, name, expected[name], server); err != nil {
			return err
		}
	}
	for _, name := range l.names[len(l.names)-o.Strangers:] {
		if err := saveFiles(l.NodeDir(name), map[string][]byte{jwtFile: []byte(strange)}); err != nil {
			return err
		}
	}
	return nil
}

// tokens makes the provisioning.jwt of the site and one that a stranger signed.
func (l *Lab) tokens(o Options) (genuine, strange string, err error) {
	claims, err := provisioningClaims(l.site, l.config["token"].(string), o.Upgrades)
	if err != nil {
		return "", "", err
	}
	if genuine, err = l.model.provisioningJWT(claims); err != nil || o.Strangers == 0 {
		return genuine, "", err
	}
	strange, err = l.model.strangersJWT(claims)
	return genuine, strange, err
}

func (l *Lab) startServer(lifeline *os.File, dir, name, jwt string) error {
	if err := l.makeNode(dir, name, jwt); err != nil {
		return err
	}
	p := &process{name: dir, dir: nodeDir(l.dir, dir), done: make(chan struct{})}
	log, err := openLog(p.log())
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	p.cmd = exec.Command(filepath.Join(p.dir, serverName))
	p.cmd.Dir = "/" // go-choria merges any choria.conf on the way to the working directory
	p.cmd.Env = environment()
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = lifeline, log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a terminal's Ctrl-C is not for servers
	if err := p.cmd.Start(); err != nil {
		return fmt.Errorf("starting %s: %w", dir, err)
	}
	go func() {
		defer close(p.done)
		_ = p.cmd.Wait() // how a server ended is in its log
	}()
	l.servers = append(l.servers, p)
	return nil
}

// end waits for a process whose lifeline was cut.
func (p *process) end() error {
	select {
	case <-p.done:
		return nil
	case <-time.After(patience):
	}
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("ending %s: %w", p.name, err)
	}
	<-p.done
	return nil
}

// Running reports whether a server's process is there. A node that a helper
// shut down is not, nor one that could not start with what it was given.
func (l *Lab) Running(name string) bool {
	p := l.process(name)
	if p == nil {
		return false
	}
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

func (l *Lab) process(name string) *process {
	for _, p := range l.servers {
		if p.name == name {
			return p
		}
	}
	return nil
}

// Pids lists the processes of all servers, for who wants to see them gone.
func (l *Lab) Pids() []int {
	var pids []int
	for _, server := range l.servers {
		pids = append(pids, server.cmd.Process.Pid)
	}
	return pids
}
