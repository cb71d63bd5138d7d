package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
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
	l.lifeline, l.lifelineEnd = out, in
	genuine, strange, err := l.tokens(o)
	if err != nil {
		return err
	}
	expected := map[string]int{}
	for _, name := range l.names {
		if err := l.startServer(name, name, genuine); err != nil {
			return err
		}
		expected[name]++
	}
	if o.Twins {
		if err := l.startServer(l.names[0]+".twin", l.names[0], genuine); err != nil {
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

// tokens makes the provisioning.jwt of the site and one of another site.
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

func (l *Lab) startServer(dir, name, jwt string) error {
	if err := l.makeNode(dir, name, jwt); err != nil {
		return err
	}
	p := &process{name: dir, dir: nodeDir(l.dir, dir)}
	if err := p.start(l.lifelineEnd); err != nil {
		return err
	}
	l.servers = append(l.servers, p)
	return nil
}

// start runs the server until its lifeline is cut.
func (p *process) start(lifeline *os.File) error {
	log, err := openLog(p.log())
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	cmd := exec.Command(filepath.Join(p.dir, serverName))
	cmd.Dir = "/" // go-choria merges any choria.conf on the way to the working directory
	cmd.Env = environment()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = lifeline, log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a terminal's Ctrl-C is not for servers
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting %s: %w", p.name, err)
	}
	done := make(chan struct{})
	p.cmd, p.done = cmd, done
	go func() {
		defer close(done)
		_ = cmd.Wait() // how a server ended is in its log
	}()
	return nil
}

// kept is what a node without a disk has again after a restart: the rest came
// into its directory while it ran, or is the lab's own record of it.
var kept = []string{serverName, seedFile, jwtFile, logFile, journalFile}

// Reboot ends a server as a power cut does and starts it again as a node without
// a disk: what it made and was given is gone. It returns when the server has
// announced its start; it must be called before anything else is asked of the lab.
func (l *Lab) Reboot(ctx context.Context, name string) error {
	p := l.process(name)
	if p == nil {
		return fmt.Errorf("rebooting %s: there is no such server", name)
	}
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("rebooting %s: %w", name, err)
	}
	<-p.done
	entries, err := os.ReadDir(p.dir)
	if err != nil {
		return fmt.Errorf("rebooting %s: %w", name, err)
	}
	for _, entry := range entries {
		if slices.Contains(kept, entry.Name()) {
			continue
		}
		if err := os.RemoveAll(filepath.Join(p.dir, entry.Name())); err != nil {
			return fmt.Errorf("rebooting %s: %w", name, err)
		}
	}
	before := l.events.started(name)
	if err := p.start(l.lifelineEnd); err != nil {
		return err
	}
	return l.events.awaitStarts(ctx, name, before+1, p)
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
