package installstate

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// The keys of the records bucket. `pause` is one for all hosts; the other values
// are each host's own.
//
//	node.IDENTITY        a row
//	value.pause
//	host.NAME.HOST       a value of one host
//	part.NAME.HOST.S.N   a part of a value that is too large for one message
const (
	nodePrefix = "node."
	maxKey     = 1 << 10 // the broker ends connections that send a line of 4 KiB
	partSize   = 256 << 10
)

// Dots would separate the tokens of a key, and those of a..b make no valid one.
//
//nolint:gochecknoglobals // never written, and costly to make for each key
var (
	escapeToToken = strings.NewReplacer(".", "/", "~", "=7E", "%", "=", "+", "=20")
	tokenToEscape = strings.NewReplacer("/", ".", "=", "%")
)

// keyToken encodes any text as one token of a key.
func keyToken(text string) string { return escapeToToken.Replace(url.QueryEscape(text)) }

// tokenText decodes what keyToken encodes, and nothing else.
func tokenText(token string) (string, bool) {
	text, err := url.QueryUnescape(tokenToEscape.Replace(token))
	return text, err == nil && keyToken(text) == token
}

func nodeKey(identity string) (string, error) {
	key := nodePrefix + keyToken(identity)
	if identity == "" || len(key) > maxKey {
		return "", unusable(identity, errors.New("an identity of this length cannot be kept in Choria Streams"))
	}
	return key, nil
}

func nodeIdentity(key string) (string, bool) {
	token, found := strings.CutPrefix(key, nodePrefix)
	identity, ok := tokenText(token)
	return identity, found && ok && identity != ""
}

// rowForm begins the stored form of a row: a line with the session and whether
// the row is pending, then the record as it is.
const rowForm = "provision-row-1 "

func encodeRow(r row) []byte {
	if r.record == nil && r.session == "" {
		return nil
	}
	return append(fmt.Appendf(nil, "%s%s %t\n", rowForm, r.session, r.pending), r.record...)
}

// decodeRow returns a value of another program as a record, which will be
// refused as unusable and can be reset.
func decodeRow(data []byte, revision uint64) row {
	foreign := row{record: append([]byte{}, data...), pending: true, revision: revision}
	line, record, found := bytes.Cut(data, []byte("\n"))
	line, ours := bytes.CutPrefix(line, []byte(rowForm))
	session, pending, complete := strings.Cut(string(line), " ")
	flag, err := strconv.ParseBool(pending)
	if !found || !ours || !complete || err != nil || session != "" && !isSession(session) {
		return foreign
	}
	r := row{session: session, pending: flag, revision: revision}
	if len(record) > 0 {
		r.record = record
	}
	return r
}

// pendingAge is how old a row may be that each visits when only pending ones are
// wanted: values cannot be filtered, and each run looks for nodes that were cut
// off. Rows of killed hosts are found by the next run of any host.
const pendingAge = 7 * 24 * time.Hour

func (e *streams) each(pendingOnly bool, visit func(string, row) error) error {
	var since time.Time
	if pendingOnly {
		since = time.Now().Add(-pendingAge)
	}
	rows, err := e.rows(since)
	for _, identity := range slices.Sorted(maps.Keys(rows)) {
		if r := rows[identity]; r.pending || !pendingOnly {
			if err := visit(identity, r); err != nil {
				return err
			}
		}
	}
	return err
}

// rows returns the rows that were written since a time, zero for all.
func (e *streams) rows(since time.Time) (map[string]row, error) {
	rows := map[string]row{}
	err := e.scan(nodePrefix+">", since, func(key string, data []byte, revision uint64) {
		if identity, ok := nodeIdentity(key); ok {
			rows[identity] = decodeRow(data, revision)
		}
	})
	return rows, err
}

// prefetch scans when a request for each of the rows would take longer.
func (e *streams) prefetch(count int) (map[string]row, error) {
	var stored uint64
	err := e.repeat(usualPatience, func(ctx context.Context) error {
		status, err := e.b.Records.Status(ctx)
		if err == nil {
			stored = status.Values()
		}
		return err
	})
	if err != nil || count < 10 || stored/10 > uint64(count) {
		return nil, err
	}
	return e.rows(time.Time{})
}

// scan visits every key of the records bucket that matches the filter and was
// written since a time, zero for ever. One consumer for all of them takes 15 us a
// key, where a request each takes 170.
func (e *streams) scan(filter string, since time.Time, visit func(key string, data []byte, revision uint64)) error {
	stream, prefix := "KV_"+e.b.Records.Bucket(), "$KV."+e.b.Records.Bucket()+"."
	config := jetstream.OrderedConsumerConfig{
		FilterSubjects:    []string{prefix + filter},
		DeliverPolicy:     jetstream.DeliverLastPerSubjectPolicy,
		InactiveThreshold: scanTimeout, // the broker removes it
	}
	if !since.IsZero() {
		config.DeliverPolicy, config.OptStartTime = jetstream.DeliverByStartTimePolicy, &since
	}
	starting, started := context.WithTimeout(e.ctx, usualPatience)
	defer started()
	consumer, err := e.b.JetStream.OrderedConsumer(starting, stream, config)
	if err != nil {
		return e.unanswered(err)
	}
	pending := consumer.CachedInfo().NumPending
	if pending == 0 {
		return nil
	}
	messages, err := consumer.Messages()
	if err != nil {
		return e.unanswered(err)
	}
	defer messages.Stop()
	for pending > 0 {
		message, err := messages.Next(jetstream.NextMaxWait(scanTimeout))
		if err != nil {
			return e.unanswered(err)
		}
		about, err := message.Metadata()
		if err != nil {
			return e.unanswered(err)
		}
		pending = about.NumPending
		if header := message.Headers(); header.Get("KV-Operation") == "" && header.Get(jetstream.MarkerReasonHeader) == "" {
			visit(strings.TrimPrefix(message.Subject(), prefix), message.Data(), about.Sequence.Stream)
		}
	}
	return nil
}

// scanTimeout bounds the wait for the next message of a scan.
const scanTimeout = 20 * time.Second

// valueKey is the key of a value; an empty host is this one.
func (e *streams) valueKey(host, name string) string {
	if name == pauseValue {
		return "value." + name
	}
	return "host." + name + "." + keyToken(cmp.Or(host, e.b.Host))
}

func (e *streams) value(name string) (value, error) {
	key := e.valueKey("", name)
	data, revision, err := e.get(e.b.Records, key)
	if err != nil || revision == 0 {
		return value{}, err
	}
	data, err = e.whole(key, data)
	return value{data: data, revision: revision}, err
}

func (e *streams) values(name string) (stored []value, err error) {
	prefix := "host." + name + "."
	err = e.scan(prefix+"*", time.Time{}, func(key string, data []byte, revision uint64) {
		if host, ok := tokenText(strings.TrimPrefix(key, prefix)); ok {
			stored = append(stored, value{data, revision, host})
		}
	})
	for i, v := range stored {
		if err == nil {
			stored[i].data, err = e.whole(e.valueKey(v.host, name), v.data)
		}
	}
	stored = slices.DeleteFunc(stored, func(v value) bool { return v.data == nil })
	slices.SortFunc(stored, func(a, b value) int { return cmp.Compare(a.host, b.host) })
	return stored, err
}

func (e *streams) setValue(name string, next value) error {
	w := write{bucket: e.b.Records, key: e.valueKey(next.host, name), data: next.data, revision: next.revision, patience: usualPatience}
	if len(next.data) > partSize {
		head, err := e.setParts(w.key, next)
		if err != nil {
			return err
		}
		w.data = head
	}
	_, err := e.cas(w)
	return err
}

// partsForm begins a value that is stored in parts: their place, their number
// and the hash of the whole follow. The parts of two values that follow each
// other have different places, so that the former one stays whole until the new
// one has replaced it. Parts that fit no hash, after two writers at a time or a
// kill, are no value: reports and counters start again.
const partsForm = "provision-parts-1 %d %d %s"

func (e *streams) setParts(key string, next value) (head []byte, err error) {
	place := 0
	if current, _, err := e.get(e.b.Records, key); err != nil {
		return nil, err
	} else if at, _, _, ok := parseParts(current); ok {
		place = 1 - at
	}
	count := 0
	for part := range slices.Chunk(next.data, partSize) {
		err := e.repeat(usualPatience, func(ctx context.Context) error {
			_, err := e.b.Records.Put(ctx, partKey(key, place, count), part)
			return err
		})
		if err != nil {
			return nil, err
		}
		count++
	}
	sum := sha256.Sum256(next.data)
	return fmt.Appendf(nil, partsForm, place, count, hex.EncodeToString(sum[:])), nil
}

// whole returns the value behind data, nil if its parts are not there.
func (e *streams) whole(key string, data []byte) ([]byte, error) {
	place, count, hash, ok := parseParts(data)
	if !ok {
		return data, nil
	}
	var all []byte
	for i := range count {
		part, _, err := e.get(e.b.Records, partKey(key, place, i))
		if err != nil {
			return nil, err
		}
		all = append(all, part...)
	}
	if sum := sha256.Sum256(all); hex.EncodeToString(sum[:]) != hash {
		return nil, nil
	}
	return all, nil
}

func parseParts(data []byte) (place, count int, hash string, ok bool) {
	n, err := fmt.Sscanf(string(data[:min(len(data), 128)]), partsForm, &place, &count, &hash)
	return place, count, hash, err == nil && n == 3 && (place == 0 || place == 1) && count > 0 && count <= 1000
}

func partKey(key string, place, i int) string {
	return fmt.Sprintf("part.%s.%d.%d", strings.TrimPrefix(key, "host."), place, i)
}
