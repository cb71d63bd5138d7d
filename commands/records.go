package commands

import (
	"context"
	"fmt"
	"io"
	"os"

	"choria-provision/config"
	"choria-provision/internal/network"
	"choria-provision/provision/installstate"

	"github.com/sirupsen/logrus"
)

// openStore returns the state that the configuration names. The caller closes
// it.
func (a *app) openStore(stop context.Context, cfg *config.Config) (*installstate.Store, error) {
	return a.openState(stop, cfg, network.CreateBuckets)
}

// readStore is openStore for commands that change nothing: what is missing stays
// missing.
func (a *app) readStore(stop context.Context, cfg *config.Config) (*installstate.Store, error) {
	return a.openState(stop, cfg, network.BindBuckets)
}

func (a *app) openState(stop context.Context, cfg *config.Config, missing network.Missing) (*installstate.Store, error) {
	if cfg.Records != config.RecordsStreams {
		return installstate.NewStore(cfg.StateDir), nil
	}
	host, err := hostName()
	if err != nil {
		return nil, err
	}
	nameUser()
	client, err := cfg.RecordsClient(os.Getenv)
	if err != nil {
		return nil, configError{err}
	}
	client.CustomLogger = logrus.New()
	client.CustomLogger.SetOutput(io.Discard) // the state reports what it could not do
	records, err := network.OpenRecords(stop, client, missing, cfg.ConnectTimeout.Duration)
	if err != nil {
		return nil, fmt.Errorf("%w; see records_choria_config, %s", connectError(stop, client, err), client.ConfigFile)
	}
	return installstate.NewSharedStore(cfg.StateDir, installstate.Buckets{
		JetStream: records.JetStream, Records: records.Records, Sessions: records.Sessions,
		TTL: records.TTL, MarkerTTL: records.MarkerTTL, Host: host, Close: records.Close,
	}), nil
}

// hostName is the name of this host beside the others that share the records.
func hostName() (string, error) {
	if name := os.Getenv("PROVISION_HOST"); name != "" {
		return name, nil
	}
	name, err := os.Hostname()
	if err != nil || name == "" {
		return "", fmt.Errorf("finding the name of this host: %w; set $PROVISION_HOST", err)
	}
	return name, nil
}
