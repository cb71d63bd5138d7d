package installstate

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
)

// A session is a key of the sessions bucket that its process renews; the bucket
// removes it a TTL after the last renewal was stored.
//
// A process acts under its claims until half a TTL after its last good renewal
// began, and its requests expire by then (they are stamped so). Another process
// can prove a session dead when the key is gone, which is half a TTL later at
// least: no request of the dead process can be served then by a node whose clock
// is less than half a TTL slow. That is why a takeover needs no further wait.
type streamSession struct {
	id     string
	data   []byte // names the process
	ttl    time.Duration
	cancel context.CancelFunc
	done   chan struct{} // closed when renewing ended

	mu       sync.Mutex
	revision uint64
	pending  time.Time // when the first write without an answer began; zero: none
	renewed  time.Time // when the last good renewal began
	lost     bool
}

// tombstone is the value of a session that was proven dead. Its process cannot
// renew it, since the revision is another.
var tombstone = []byte("dead")

// renewals is how often a session is renewed in a TTL: three attempts fit into
// the half after which the process stops.
const renewals = 6

// session starts another session after the last was lost only when no claim is
// held, since the deadline is then the new one's.
func (e *streams) session(idle bool) (string, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.ctx.Err() != nil:
		return "", unanswered(e.ctx.Err())
	case e.own != nil && time.Now().Before(e.own.deadline()):
		return e.own.id, nil
	case e.own != nil && !idle:
		return "", unanswered(errors.New("this process could not renew its session in time, and its nodes are still at work"))
	case e.own != nil:
		e.own.end(e)
		e.own = nil
	}
	own, err := e.startSession()
	if err != nil {
		return "", err
	}
	e.own = own
	return own.id, nil
}

func (e *streams) startSession() (s *streamSession, err error) {
	s = &streamSession{id: rand.Text(), ttl: e.b.TTL, renewed: time.Now(), done: make(chan struct{})}
	s.data, err = json.Marshal(Holder{PID: os.Getpid(), Host: e.b.Host, Since: s.renewed.UTC().Round(0)})
	if err == nil {
		s.revision, err = e.cas(write{bucket: e.b.Sessions, key: s.id, data: s.data, patience: usualPatience})
	}
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(e.ctx)
	s.cancel = cancel
	go s.keep(ctx, e)
	return s, nil
}

// keep renews the session until ctx ends or the session is lost.
func (s *streamSession) keep(ctx context.Context, e *streams) {
	defer close(s.done)
	ticker := time.NewTicker(s.ttl / renewals)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if errors.Is(s.renew(e), errConflict) {
				return
			}
		}
	}
}

func (s *streamSession) renew(e *streams) error {
	s.mu.Lock()
	w := write{bucket: e.b.Sessions, key: s.id, data: s.data, revision: s.revision, patience: s.ttl / renewals, repeated: !s.pending.IsZero()}
	if s.pending.IsZero() {
		s.pending = time.Now()
	}
	s.mu.Unlock()
	revision, err := e.cas(w)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		s.revision, s.renewed, s.pending = revision, s.pending, time.Time{}
	}
	s.lost = s.lost || errors.Is(err, errConflict)
	return err
}

// deadline is in the past when the session is lost.
func (s *streamSession) deadline() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lost {
		return time.Unix(0, 0)
	}
	return s.renewed.Add(s.ttl / 2)
}

// end stops the renewals and frees the claims at once. Without an answer the
// session ends with its TTL.
func (s *streamSession) end(e *streams) {
	s.cancel()
	<-s.done
	if time.Now().Before(s.deadline()) {
		_, _ = e.cas(write{bucket: e.b.Sessions, key: s.id, data: tombstone, revision: s.revision})
	}
}

func (e *streams) deadline() time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.own == nil {
		return time.Time{}
	}
	return e.own.deadline()
}

// holder proves a session dead by creating its key: the broker refuses that
// while the session lives, whatever a replica says of it.
func (e *streams) holder(session string, prove bool) (Holder, bool, error) {
	if _, dead := e.dead.Load(session); dead || !isSession(session) {
		return Holder{}, false, nil
	}
	for range maxConflicts {
		data, revision, err := e.get(e.b.Sessions, session)
		switch {
		case err != nil:
			return Holder{}, false, err
		case revision != 0 && !bytes.Equal(data, tombstone):
			var h Holder
			_ = json.Unmarshal(data, &h) // one that does not say which process it is lives as well
			return h, true, nil
		case revision == 0 && !prove:
			return Holder{}, false, nil
		case revision == 0:
			_, err = e.cas(write{bucket: e.b.Sessions, key: session, data: tombstone, patience: usualPatience})
		}
		if err == nil {
			e.dead.Store(session, true)
			return Holder{}, false, nil
		}
		if !errors.Is(err, errConflict) {
			return Holder{}, false, err
		}
	}
	return Holder{}, false, unanswered(fmt.Errorf("session %s: %w", session, errConflict))
}
