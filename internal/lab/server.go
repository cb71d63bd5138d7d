package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/choria-io/go-choria/build"
	"github.com/choria-io/go-choria/choria"
	"github.com/choria-io/go-choria/config"
	"github.com/choria-io/go-choria/inter"
	"github.com/choria-io/go-choria/protocol"
	golang "github.com/choria-io/go-choria/providers/agent/mcorpc/golang"
	"github.com/choria-io/go-choria/providers/agent/mcorpc/golang/provision"
	"github.com/choria-io/go-choria/server"
	"github.com/choria-io/go-choria/server/agents"
	"github.com/sirupsen/logrus"
)

// What a server keeps in its directory, beside what go-choria puts there.
const (
	seedFile    = "seed.conf"        // its configuration before it has one
	configFile  = "server.conf"      // what configure writes
	jwtFile     = "provisioning.jwt" // what sends it to provisioning
	logFile     = "server.log"       // of all its starts
	releaseFile = "release"          // the version it was upgraded to
	wantedFile  = "release.wanted"   // the version it was last asked to upgrade to
	journalFile = "journal.jsonl"    // starts and requests
)

// runServer is a Choria server as a distribution would start it: with a
// provisioning.jwt, which sends it to provisioning until it is configured.
func runServer(dir string) error {
	go endWithParent()
	build.ProvisionJWTFile = filepath.Join(dir, jwtFile) // a distribution sets it while linking
	if version, err := os.ReadFile(filepath.Join(dir, releaseFile)); err == nil {
		build.Version = strings.TrimSpace(string(version))
	}
	fw, err := serverFramework(dir)
	if err != nil {
		return err
	}
	ctx := context.Background()
	fw.ConfigureProvisioning(ctx)

	log := journal{dir}
	register(log)
	instance, err := server.NewInstance(fw)
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	wg.Add(1)
	if err := instance.Run(ctx, &wg); err != nil {
		return err
	}
	if err := log.started(fw); err != nil {
		return err
	}
	wg.Wait() // until the provision agent shuts the process down, or the lab does
	return nil
}

func serverFramework(dir string) (*choria.Framework, error) {
	site, _, err := loadSite(filepath.Dir(filepath.Dir(dir)))
	if err != nil {
		return nil, err
	}
	cfg, err := serverConfig(dir)
	if err != nil {
		return nil, err
	}
	cfg.OverrideCertname = cfg.Identity // else a USER in the environment names it
	if site.Enrollment == Insecure {
		cfg.DisableTLS = true
		protocol.Secure = "false"
	}
	return choria.NewWithConfig(cfg)
}

// serverConfig loads what configure wrote, or else the seed: also when what
// was written says that the node is to be provisioned again.
func serverConfig(dir string) (*config.Config, error) {
	own := filepath.Join(dir, configFile)
	cfg, err := config.NewSystemConfig(own, true)
	switch {
	case err == nil && !cfg.Choria.Provision:
		return cfg, nil
	case err != nil && !errors.Is(err, os.ErrNotExist):
		if _, missing := os.Stat(own); missing == nil {
			return nil, fmt.Errorf("reading %s: %w", own, err)
		}
	}
	cfg, err = config.NewSystemConfig(filepath.Join(dir, seedFile), true)
	if err != nil {
		return nil, err
	}
	cfg.ConfigFile = own
	cfg.DisableSecurityProviderVerify = true // no credentials yet
	return cfg, nil
}

// register adds the agents, each wrapped to write down what it is asked.
func register(log journal) {
	server.RegisterAdditionalAgentProvider(recordingProvider{&golang.Provider{}, log})
	server.RegisterAdditionalAgent(func(ctx context.Context, mgr *agents.Manager, conn inter.AgentConnector, _ *logrus.Entry) error {
		agent, err := provision.New(mgr)
		if err != nil {
			return err
		}
		return recordingManager{mgr, log}.RegisterAgent(ctx, "choria_provision", agent, conn)
	})
}
