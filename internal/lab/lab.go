// Package lab knows how to bring a whole Choria site to one machine: an
// embedded broker, real Choria servers as child processes in provisioning
// mode, keys, configuration and a helper, for each of the three kinds of
// network; and how to tell from outside whether a server came into service. It
// does not know how a node is provisioned.
//
// A program that starts labs plays the children too: it calls RunIfChild
// before anything else.
package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"choria-provision/internal/fleet"
)

// startLimit bounds the start of a lab; a server needs about 50 ms of it, more
// on a busy machine.
const startLimit = 2 * time.Minute

// Options say what a lab is made of.
type Options struct {
	Nodes      int    // servers; with simulated nodes there may be none
	Enrollment string // Insecure, PKI or Issuer
	Dir        string // must be empty or absent, and stays; empty: a temporary one that Close removes
	Helper     string // command line of a site's own helper; empty: the sample helper

	// Strangers is how many nodes, counted from the last, hand out a
	// provisioning.jwt that another site signed. They join with the real one:
	// brokers let no other in.
	Strangers int
	// Twins starts a second server with the first node's identity.
	Twins bool
	// Upgrades allows release_update and serves a release repository that has
	// every version.
	Upgrades bool
	// Upgrade is the version that the sample helper asks for, and that servers in
	// service must report; it turns Upgrades on. Empty: none.
	Upgrade string

	// Hosts is how many provisioners share records in Choria Streams; 0: one
	// alone with its own. Not on an insecure network.
	Hosts int

	// Simulate adds light nodes, which play provisioning mode and no more.
	Simulate      int
	PerConnection int           // simulated nodes that share a connection; 0: 500
	Faults        []fleet.Fault // what some of the simulated nodes do wrong
}

// Lab is a running site. Its methods may be called from many goroutines, but
// not once Close was.
type Lab struct {
	dir      string
	own      bool // the directory is ours to remove
	site     site
	model    model
	names    []string
	broker   broker
	servers  []*process
	lifeline *os.File // children end when this end of the pipe is closed
	// lifelineEnd is the end that children hold, kept for those that start later.
	lifelineEnd *os.File
	events      *events
	releases    *repository
	release     string // that servers in service must have; empty: any
	config      map[string]any
	choria      settings
	behaving    sync.Mutex // keeps two writers of the behaviour file apart

	simulated *simulation // nil without simulated nodes
	asking    sync.Mutex  // one question to it at a time
}

// Start brings up broker and servers and returns when every server waits to
// be provisioned: its startup event was seen.
func Start(ctx context.Context, o Options) (*Lab, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	o.Upgrades = o.Upgrades || o.Upgrade != ""
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()

	l := &Lab{}
	if err := l.start(ctx, o); err != nil {
		return nil, errors.Join(fmt.Errorf("starting the lab: %w", err), l.Close())
	}
	return l, nil
}

func (o Options) check() error {
	switch {
	case o.Nodes < 0, o.Simulate < 0, o.Nodes+o.Simulate < 1:
		return fmt.Errorf("a lab of %d nodes and %d simulated ones: at least one is needed", o.Nodes, o.Simulate)
	case o.Twins && o.Nodes < 1:
		return errors.New("twins without a node")
	case o.Hosts < 0, o.Hosts > 0 && o.Enrollment == Insecure:
		return fmt.Errorf("%d hosts on the network %s: hosts share records on issuer and pki networks", o.Hosts, o.Enrollment)
	case o.Upgrade != "" && o.Simulate > 0:
		return errors.New("an upgrade among simulated nodes: only servers can be upgraded")
	case o.Strangers < 0 || o.Strangers > o.Nodes:
		return fmt.Errorf("%d strangers among %d nodes", o.Strangers, o.Nodes)
	}
	_, err := modelOf(o.Enrollment, "")
	return err
}

func (l *Lab) start(ctx context.Context, o Options) error {
	for i := range o.Nodes {
		l.names = append(l.names, fmt.Sprintf("node%d.example.net", i+1))
	}
	for _, step := range []func(context.Context, Options) error{
		l.makeDir, l.makeKeys, l.startBroker, l.startReleases, l.writeFiles, l.shareRecords, l.startServers, l.startFleet,
	} {
		if err := step(ctx, o); err != nil {
			return err
		}
	}
	return nil
}

func (l *Lab) makeDir(_ context.Context, o Options) (err error) {
	if o.Dir == "" {
		l.dir, err = os.MkdirTemp("", "provision-lab-")
		l.own = err == nil
	} else if l.dir, err = filepath.Abs(o.Dir); err == nil {
		err = os.MkdirAll(l.dir, 0o700)
	}
	if err != nil {
		return fmt.Errorf("making a directory: %w", err)
	}
	if found, err := os.ReadDir(l.dir); err != nil || len(found) > 0 {
		return errors.Join(fmt.Errorf("the directory %s is in use: name one that is empty or absent", l.dir), err)
	}
	for _, sub := range []string{"bin", "issued", "keys", "nodes", "state"} {
		if err := os.Mkdir(filepath.Join(l.dir, sub), 0o700); err != nil {
			return fmt.Errorf("making a directory: %w", err)
		}
	}
	return l.makeCommands()
}

// makeCommands gives the running program the names it is called by in the lab:
// the product's own and those RunIfChild knows.
func (l *Lab) makeCommands() error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding this program: %w", err)
	}
	for _, name := range []string{"provision", helperName, askerName, fleetName} {
		if err := os.Symlink(self, filepath.Join(l.dir, "bin", name)); err != nil {
			return err
		}
	}
	return nil
}

func (l *Lab) makeKeys(_ context.Context, o Options) (err error) {
	l.model, err = modelOf(o.Enrollment, l.dir)
	if err != nil {
		return err
	}
	if err := l.model.makeKeys(); err != nil {
		return fmt.Errorf("making keys: %w", err)
	}
	return makeStrangerCA(filepath.Join(l.dir, "keys"))
}

func (l *Lab) startBroker(ctx context.Context, o Options) (err error) {
	l.broker, err = l.model.startBroker(ctx)
	if err != nil {
		return fmt.Errorf("starting the broker: %w", err)
	}
	l.site = site{
		Enrollment: o.Enrollment,
		Broker:     l.broker.url(),
		Collective: l.model.collective(),
		Nodes:      l.names,
	}
	l.events, err = listen(l.broker)
	return err
}

func (l *Lab) startReleases(_ context.Context, o Options) (err error) {
	if o.Upgrades {
		l.releases, err = startRepository()
	}
	if err != nil || o.Upgrade == "" {
		return err
	}
	l.release = o.Upgrade
	return l.Behave(anyNode, Behaviour{Do: Upgrade, Version: o.Upgrade})
}

// Close ends all children and waits for them, stops the broker and removes a
// directory that Start made.
func (l *Lab) Close() error {
	var errs []error
	if l.lifeline != nil {
		errs = append(errs, l.lifeline.Close(), l.lifelineEnd.Close())
	}
	for _, server := range l.servers {
		errs = append(errs, server.end())
	}
	if l.simulated != nil {
		errs = append(errs, l.simulated.stop())
	}
	if l.events != nil {
		l.events.close()
	}
	if l.broker != nil {
		l.broker.stop()
	}
	if l.releases != nil {
		errs = append(errs, l.releases.close())
	}
	if l.own {
		errs = append(errs, os.RemoveAll(l.dir))
	}
	return errors.Join(errs...)
}

// Dir is the lab's directory.
func (l *Lab) Dir() string { return l.dir }

// ConfigFile is the provisioner's configuration.
func (l *Lab) ConfigFile() string { return filepath.Join(l.dir, "provision.yaml") }

// ChoriaFile is the provisioner's Choria client configuration.
func (l *Lab) ChoriaFile() string { return filepath.Join(l.dir, "client.conf") }

// StateDir is an empty directory for the provisioner's state.
func (l *Lab) StateDir() string { return filepath.Join(l.dir, "state") }

// NodeNames lists the identities of the servers.
func (l *Lab) NodeNames() []string { return append([]string(nil), l.names...) }

// NodeDir is where a server keeps its configuration, keys and logs. A twin's
// is that of the name with ".twin" behind it.
func (l *Lab) NodeDir(name string) string { return nodeDir(l.dir, name) }

func nodeDir(dir, name string) string { return filepath.Join(dir, "nodes", name) }

// BrokerURL is where the broker listens: nats://127.0.0.1:PORT.
func (l *Lab) BrokerURL() string { return l.site.Broker }

// Exports are the variables that point a provisioner to this lab.
func (l *Lab) Exports() []string {
	return []string{
		"PROVISION_CONFIG=" + l.ConfigFile(),
		"PROVISION_CHORIA_CONFIG=" + l.ChoriaFile(),
		"PROVISION_STATE_DIR=" + l.StateDir(),
	}
}

// Env is the environment for a command that works in this lab: this process's
// own with Exports, and a PATH on which provision is this very program.
func (l *Lab) Env() []string {
	path := filepath.Join(l.dir, "bin")
	if own := os.Getenv("PATH"); own != "" {
		path += string(os.PathListSeparator) + own
	}
	return append(environment(), append(l.Exports(), "PATH="+path)...)
}

// environment is this process's own, less what would give a Choria client or
// server another name or network than its configuration says.
func environment() []string {
	var env []string
	user := "USER=root"
	for _, pair := range os.Environ() {
		switch name, _, _ := strings.Cut(pair, "="); name {
		case "MCOLLECTIVE_CERTNAME", "CHORIA_FED_COLLECTIVE":
		case "USER":
			user = pair
		default:
			env = append(env, pair)
		}
	}
	return append(env, user)
}
