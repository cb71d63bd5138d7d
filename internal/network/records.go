package network

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/choria-io/go-choria/choria"
	choriaconfig "github.com/choria-io/go-choria/config"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// The buckets of shared records.
const (
	RecordsBucket  = "CHORIA_PROVISION_RECORDS"
	SessionsBucket = "CHORIA_PROVISION_SESSIONS"
)

const (
	sessionTTL     = time.Minute      // a client may take 20 s to be back after its broker
	minSessionTTL  = 10 * time.Second // a session is renewed six times in it
	markerTTL      = time.Hour        // of removed keys
	minValueSize   = 512 << 10        // parts of a report have 256 KiB
	streamsTimeout = 5 * time.Second
)

// The causes of shared records that cannot be used.
var (
	ErrStreams   = errors.New("the shared records in Choria Streams cannot be used")
	ErrForbidden = errors.New("the broker forbids it")
)

// Records is the connection to the shared records. It leads to the production
// account, and what goes wrong on it does not touch the provisioning connection.
type Records struct {
	JetStream jetstream.JetStream
	Records   jetstream.KeyValue
	Sessions  jetstream.KeyValue
	TTL       time.Duration // of Sessions
	MarkerTTL time.Duration // of removed Records; 0: their markers stay

	nc      *nats.Conn
	missing Missing
}

// Missing says what to do about buckets that do not exist.
type Missing bool

// What to do about buckets that do not exist.
const (
	BindBuckets   Missing = false // it is an error
	CreateBuckets Missing = true  // needs the permission Streams Admin
)

// OpenRecords connects within timeout and binds the buckets. The error shows the
// command that creates missing ones. Errors are ErrStreams or those of Dial.
func OpenRecords(ctx context.Context, cfg *choriaconfig.Config, missing Missing, timeout time.Duration) (*Records, error) {
	fw, err := choria.NewWithConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSecurity, err)
	}
	d := &dialer{timeout: cfg.Choria.NetworkConnectTimeout}
	all, err := options(fw, "provision records "+cfg.Identity, d, fw.Logger("network"))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSecurity, err)
	}
	nc, err := connect(ctx, fw, d, timeout, all)
	if err != nil {
		return nil, fmt.Errorf("connecting to Choria Streams: %w", err)
	}
	r := &Records{nc: nc, missing: missing}
	if err := r.bind(ctx); err != nil {
		r.Close()
		return nil, fmt.Errorf("%w: %w", ErrStreams, err)
	}
	return r, nil
}

// Close ends the connection.
func (r *Records) Close() { r.nc.Close() }

func (r *Records) bind(ctx context.Context) (err error) {
	if r.JetStream, err = jetstream.New(r.nc); err != nil {
		return err
	}
	var records, sessions jetstream.KeyValueStatus
	if r.Records, records, err = r.bucket(ctx, RecordsBucket, 0); err != nil {
		return err
	}
	if r.Sessions, sessions, err = r.bucket(ctx, SessionsBucket, sessionTTL); err != nil {
		return err
	}
	r.TTL, r.MarkerTTL = sessions.TTL(), records.LimitMarkerTTL()
	switch limit := records.Config().MaxValueSize; {
	case records.TTL() != 0:
		return fmt.Errorf("the bucket %s has a TTL of %s: records would vanish; %s", RecordsBucket, records.TTL(), makeBucket(RecordsBucket))
	case limit > 0 && limit < minValueSize:
		return fmt.Errorf("the bucket %s takes values of %d bytes at most, %d are needed; %s", RecordsBucket, limit, minValueSize, makeBucket(RecordsBucket))
	case r.TTL < minSessionTTL:
		return fmt.Errorf("the bucket %s has a TTL of %s, %s is needed and at least %s works; %s", SessionsBucket, r.TTL, sessionTTL, minSessionTTL, makeBucket(SessionsBucket))
	}
	return nil
}

// makeBucket is the command that makes a bucket.
func makeBucket(name string) string {
	ttl := ""
	if name == SessionsBucket {
		ttl = " --ttl 60s"
	}
	return "make it with `choria kv add " + name + " --history 1" + ttl + " --no-direct --replicas N`, N being 3 on a cluster, else 1"
}

// bucket binds a bucket and creates it if it is missing.
func (r *Records) bucket(ctx context.Context, name string, ttl time.Duration) (bucket jetstream.KeyValue, status jetstream.KeyValueStatus, err error) {
	err = r.ask(ctx, "reading the bucket "+name, func(ctx context.Context) (err error) {
		bucket, err = r.JetStream.KeyValue(ctx, name)
		return err
	})
	switch {
	case errors.Is(err, jetstream.ErrBucketNotFound) && r.missing == BindBuckets:
		err = fmt.Errorf("%w; a run creates it if its token has the permission Streams Admin, or %s", err, makeBucket(name))
	case errors.Is(err, jetstream.ErrBucketNotFound):
		err = r.create(ctx, name, ttl)
		if err == nil {
			bucket, err = r.JetStream.KeyValue(ctx, name)
		}
	}
	if err != nil {
		return nil, nil, err
	}
	err = r.ask(ctx, "reading the bucket "+name, func(ctx context.Context) (err error) {
		status, err = bucket.Status(ctx)
		return err
	})
	return bucket, status, err
}

// create makes a bucket with as many replicas as Choria's own for elections.
// Reads go to the leader: a replica may answer with what was replaced long ago.
func (r *Records) create(ctx context.Context, name string, ttl time.Duration) error {
	replicas := 1
	if elections, err := r.JetStream.Stream(ctx, "KV_"+electionBucket); err == nil {
		replicas = elections.CachedInfo().Config.Replicas
	}
	stream := jetstream.StreamConfig{
		Name: "KV_" + name, Description: "shared records of choria-provision", Subjects: []string{"$KV." + name + ".>"},
		MaxMsgsPerSubject: 1, MaxAge: ttl, Duplicates: duplicatesWithin(ttl), Replicas: replicas,
		AllowRollup: true, DenyDelete: true, Discard: jetstream.DiscardNew,
	}
	if info, err := r.JetStream.AccountInfo(ctx); err == nil && info.API.Level >= 1 && ttl == 0 { // nats-server 2.11
		stream.AllowMsgTTL, stream.SubjectDeleteMarkerTTL = true, markerTTL
	}
	err := r.ask(ctx, "creating the bucket "+name, func(ctx context.Context) error {
		_, err := r.JetStream.CreateStream(ctx, stream)
		return err
	})
	switch {
	case errors.Is(err, jetstream.ErrStreamNameAlreadyInUse): // another host was faster
		return nil
	case err != nil:
		return fmt.Errorf("%w; give this host's token the permission Streams Admin for one run, or %s", err, makeBucket(name))
	}
	return nil
}

// duplicatesWithin is what JetStream takes for a stream of this TTL; message ids
// are not used.
func duplicatesWithin(ttl time.Duration) time.Duration {
	if ttl == 0 {
		return 2 * time.Minute
	}
	return min(ttl, 2*time.Minute)
}

// ask makes one request. A forbidden one only times out: the broker names the
// subject beside it.
func (r *Records) ask(ctx context.Context, what string, request func(context.Context) error) error {
	bounded, cancel := context.WithTimeout(ctx, streamsTimeout)
	defer cancel()
	err := request(bounded)
	switch last := r.nc.LastError(); {
	case err == nil:
		return nil
	case errors.Is(err, context.DeadlineExceeded) && errors.Is(last, nats.ErrPermissionViolation):
		return fmt.Errorf("%s: %w: %w; the credentials in records_choria_config need the permission Streams User", what, ErrForbidden, last)
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%s: no reply in %s", what, streamsTimeout)
	case errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount), errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, nats.ErrNoResponders):
		return fmt.Errorf("%s: %w; enable Choria Streams on the broker, and let records_choria_config lead to its production account", what, err)
	default:
		return fmt.Errorf("%s: %w", what, err)
	}
}
