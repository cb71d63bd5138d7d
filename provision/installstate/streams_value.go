package installstate

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
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

// keyToken encodes any text as one token of a key. Dots would separate tokens,
// and those of a..b make no valid key.
func keyToken(text string) string {
	return strings.NewReplacer(".", "/", "~", "=7E", "%", "=", "+", "=20").Replace(url.QueryEscape(text))
}

// tokenText decodes what keyToken encodes, and nothing else.
func tokenText(token string) (string, bool) {
	text, err := url.QueryUnescape(strings.NewReplacer("/", ".", "=", "%").Replace(token))
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
