package lab

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"time"

	"choria-provision/internal/network"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// hostSessionTTL is short: the claims of a killed host are free soon.
const hostSessionTTL = 10 * time.Second

// shareRecords makes the buckets that hosts share, and a state directory for
// each host.
func (l *Lab) shareRecords(ctx context.Context, o Options) error {
	if o.Hosts == 0 {
		return nil
	}
	if err := l.makeBuckets(ctx); err != nil {
		return fmt.Errorf("making the buckets of shared records: %w", err)
	}
	for i := range o.Hosts {
		if err := os.MkdirAll(l.HostStateDir(i), 0o700); err != nil {
			return err
		}
	}
	file := filepath.Join(l.dir, "records.conf")
	client := clientSettings(l.site, l.model, recordsName).with(settings{"main_collective": l.site.Collective, "collectives": l.site.Collective})
	if err := client.save(file); err != nil {
		return err
	}
	maps.Copy(l.config, map[string]any{"records": "streams", "records_choria_config": file})
	return l.SetConfig(nil)
}

func (l *Lab) makeBuckets(ctx context.Context) error {
	nc, err := l.Inside()
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	if _, err := js.CreateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: network.RecordsBucket, LimitMarkerTTL: time.Minute}); err != nil {
		return err
	}
	_, err = js.CreateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: network.SessionsBucket, TTL: hostSessionTTL})
	return err
}

// HostStateDir is the state directory of a host, counted from 0.
func (l *Lab) HostStateDir(host int) string {
	return filepath.Join(l.dir, "hosts", HostName(host), "state")
}

// HostName is the name of a host, counted from 0.
func HostName(host int) string { return fmt.Sprintf("host%d", host+1) }

// HostExports are the variables that make a provisioner one of the hosts.
func (l *Lab) HostExports(host int) []string {
	return []string{"PROVISION_STATE_DIR=" + l.HostStateDir(host), "PROVISION_HOST=" + HostName(host)}
}

// Inside connects to the broker from inside: with the production account and all
// permissions.
func (l *Lab) Inside() (*nats.Conn, error) { return nats.Connect("", nats.InProcessServer(l.broker)) }
