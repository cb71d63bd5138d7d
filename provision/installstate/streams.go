package installstate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Buckets are the key-value buckets of Choria Streams that several hosts share.
type Buckets struct {
	JetStream jetstream.JetStream
	Records   jetstream.KeyValue
	Sessions  jetstream.KeyValue
	TTL       time.Duration // of Sessions: ends the session of a process that is gone
	MarkerTTL time.Duration // of Records; 0: markers of removed keys stay for ever
	Host      string        // the name of this host; no two hosts may have the same
	Close     func()        // ends the connection; nil: it is left open
}

// NewSharedStore returns the store that this host shares with others. The
// buckets hold everything but the run lock, which is this host's own and in dir.
func NewSharedStore(dir string, b Buckets) *Store {
	return &Store{dir: dir, host: b.Host, engine: newStreams(b), pause: pauseFlag{age: sharedPauseAge}}
}

// How long the engine waits for the broker. A client is back 1 to 2 s after its
// broker; a write that ends an installation is worth more patience, see cas.
const (
	attemptTimeout = 2 * time.Second
	usualPatience  = 5 * time.Second
	retryPause     = 100 * time.Millisecond
	busyPause      = 5 * time.Millisecond
)

// Error codes of JetStream for a compare-and-set that was not made.
const (
	codeWrongRevision jetstream.ErrorCode = 10071 // the key has another revision
	codeKeyBusy       jetstream.ErrorCode = 10164 // another write of the key is under way
)

// streams is the shared engine. Each node's row is a key of the records bucket,
// and every decision is a compare-and-set on the key's revision, which is the
// sequence of its last message and never comes back.
type streams struct {
	b    Buckets
	ctx  context.Context // ends with close
	end  context.CancelFunc
	dead sync.Map // sessions that were proven dead, by id

	mu  sync.Mutex
	own *streamSession // nil: none yet
}

func newStreams(b Buckets) *streams {
	e := &streams{b: b}
	e.ctx, e.end = context.WithCancel(context.Background())
	return e
}

func (e *streams) read(identity string) (row, error) {
	key, err := nodeKey(identity)
	if err != nil {
		return row{}, err
	}
	data, revision, err := e.get(e.b.Records, key)
	if err != nil || revision == 0 {
		return row{}, err
	}
	return decodeRow(data, revision), nil
}

func (e *streams) write(identity string, next row, durable bool) (uint64, error) {
	key, err := nodeKey(identity)
	if err != nil {
		return 0, err
	}
	w := write{bucket: e.b.Records, key: key, data: encodeRow(next), revision: next.revision, patience: usualPatience}
	if durable {
		w.patience = max(usualPatience, e.b.TTL/2)
	}
	return e.cas(w)
}

// get returns the value of a key and its revision, 0 when there is none. It may
// be one that has just been replaced: replicas answer for themselves.
func (e *streams) get(bucket jetstream.KeyValue, key string) (data []byte, revision uint64, err error) {
	err = e.repeat(usualPatience, func(ctx context.Context) error {
		entry, err := bucket.Get(ctx, key)
		switch {
		case errors.Is(err, jetstream.ErrKeyNotFound):
			return nil
		case err != nil:
			return err
		}
		data, revision = entry.Value(), entry.Revision()
		return nil
	})
	return data, revision, err
}

// write is one compare-and-set.
type write struct {
	bucket   jetstream.KeyValue
	key      string
	data     []byte // nil: remove the key
	revision uint64 // what the key must have; 0: it must not exist
	patience time.Duration
	repeated bool // an earlier copy may be under way
}

// cas makes a compare-and-set and returns the new revision, 0 after removal.
//
// A write without an answer may have been stored, or may wait in a buffer and be
// stored later. Therefore the same write is repeated, with the same revision,
// until one copy is stored or refused: after that no other copy can be stored.
// If patience ends first the error is ErrUnavailable, and the write may still
// happen, but only while no other process has written the key.
func (e *streams) cas(w write) (revision uint64, err error) {
	if w.data == nil && w.revision == 0 {
		return 0, nil
	}
	err = e.repeat(w.patience, func(ctx context.Context) (err error) {
		revision, err = e.once(ctx, w)
		w.repeated = w.repeated || err != nil && !isCode(err, codeKeyBusy, codeWrongRevision)
		return err
	})
	if !isCode(err, codeWrongRevision) {
		return revision, err
	}
	if !w.repeated {
		return 0, errConflict
	}
	return e.resolve(w)
}

// once makes one attempt of a compare-and-set.
func (e *streams) once(ctx context.Context, w write) (uint64, error) {
	switch {
	case w.data != nil && w.revision == 0:
		return w.bucket.Create(ctx, w.key, w.data) // over a marker of removal too, which Update refuses
	case w.data != nil:
		return w.bucket.Update(ctx, w.key, w.data, w.revision)
	case e.b.MarkerTTL > 0:
		return 0, w.bucket.Purge(ctx, w.key, jetstream.LastRevision(w.revision), jetstream.PurgeTTL(e.b.MarkerTTL))
	default:
		return 0, w.bucket.Delete(ctx, w.key, jetstream.LastRevision(w.revision))
	}
}

// resolve finds out whether a write that was refused had been stored by a copy
// that got no answer. A value names its session or its time, so that no two
// writers store the same one.
func (e *streams) resolve(w write) (uint64, error) {
	for end := time.Now().Add(w.patience); ; {
		data, revision, err := e.get(w.bucket, w.key)
		switch {
		case err != nil:
			return 0, err
		case revision == 0 && w.data == nil, revision > w.revision && w.data != nil && bytes.Equal(data, w.data):
			return revision, nil
		case revision == 0 && w.revision != 0, revision > w.revision:
			return 0, errConflict
		case time.Now().After(end): // only values from before the write
			return 0, unanswered(errConflict)
		}
		if err := e.sleep(busyPause); err != nil {
			return 0, err
		}
	}
}

// repeat makes attempts until one has an answer: nil, a refusal or an error that
// another attempt would meet too. The error of the last one is ErrUnavailable
// unless it is a refusal.
func (e *streams) repeat(patience time.Duration, attempt func(context.Context) error) error {
	for end := time.Now().Add(patience); ; {
		ctx, cancel := context.WithTimeout(e.ctx, attemptTimeout)
		err := attempt(ctx)
		cancel()
		wait := retryPause
		switch {
		case err == nil || isCode(err, codeWrongRevision):
			return err
		case isCode(err, codeKeyBusy):
			wait = busyPause
		case isFinal(err):
			return e.unanswered(err)
		}
		if time.Now().After(end) || e.sleep(wait) != nil {
			return e.unanswered(err)
		}
	}
}

// sleep waits, unless the engine is closed.
func (e *streams) sleep(d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-e.ctx.Done():
		return unanswered(e.ctx.Err())
	}
}

func isCode(err error, codes ...jetstream.ErrorCode) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && slices.Contains(codes, api.ErrorCode)
}

// isFinal reports whether another attempt would fail in the same way. JetStream
// answers 503 while it has no leader or no resources for the moment.
func isFinal(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && api.Code != 503 ||
		errors.Is(err, nats.ErrConnectionClosed) || errors.Is(err, nats.ErrMaxPayload) || errors.Is(err, jetstream.ErrInvalidKey)
}

// unanswered names the broker's refusal behind a request that only timed out.
func (e *streams) unanswered(err error) error {
	if last := e.b.JetStream.Conn().LastError(); errors.Is(last, nats.ErrPermissionViolation) {
		err = fmt.Errorf("%w; the broker said last: %w", err, last)
	}
	return unanswered(err)
}

func unanswered(err error) error {
	return fmt.Errorf("%w: Choria Streams: %w", ErrUnavailable, err)
}

func (e *streams) close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.own != nil {
		e.own.end(e)
		e.own = nil
	}
	closed := e.ctx.Err() != nil
	e.end()
	if e.b.Close != nil && !closed {
		e.b.Close()
	}
	return nil
}
