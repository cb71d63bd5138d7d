package network

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/choria-io/go-choria/protocol"
)

// layers are the three wrappings of a reply, the outermost first.
type layers [3]map[string]any

func layersOf(t *testing.T, version protocol.ProtocolVersion, data []byte) (l layers) {
	t.Helper()
	inner := data
	for i := range l {
		if err := json.Unmarshal(inner, &l[i]); err != nil {
			t.Fatal(err)
		}
		var next struct {
			Data    []byte `json:"data"`
			Reply   []byte `json:"reply"`
			Message string `json:"message"`
		}
		if i == len(l)-1 {
			break
		}
		if err := json.Unmarshal(inner, &next); err != nil {
			t.Fatal(err)
		}
		switch {
		case i == 0:
			inner = next.Data
		case version == protocol.RequestV2:
			inner = next.Reply
		default:
			inner = []byte(next.Message)
		}
	}
	return l
}

// sealed puts the layers together again. A layer that was altered on purpose is
// the last to be changed: what is inside it stands, with its hash.
func (l layers) sealed(version protocol.ProtocolVersion, altered int) []byte {
	if altered == 2 {
		body := encoded(l[2])
		l[1] = maps.Clone(l[1])
		l[1]["hash"] = hashOf(body)
		if version == protocol.RequestV2 {
			l[1]["reply"] = body
		} else {
			l[1]["message"] = string(body)
		}
	}
	if altered > 0 {
		l[0] = maps.Clone(l[0])
		l[0]["data"] = encoded(l[1])
	}
	return encoded(l[0])
}

// with returns the layers less one key, or with another value in its place if
// there is one.
func (l layers) with(layer int, key string, value any, there bool) layers {
	l[layer] = maps.Clone(l[layer])
	delete(l[layer], key)
	if there {
		l[layer][key] = value
	}
	return l
}

// TestRepliesWithOneOddFieldReadAsGoChoriaReadsThem holds what a fuzzer may never
// come upon: a good reply with one field of one of its
// layers missing or of another kind, and all else in order. What go-choria
// refuses must be refused, and what both accept must read the same.
func TestRepliesWithOneOddFieldReadAsGoChoriaReadsThem(t *testing.T) {
	odd := []any{nil, 1, -1.5, "x", "", true, []any{}, []any{"x"}, map[string]any{}, map[string]any{"x": 1}}
	for _, security := range []int{0, 2} {
		p := securities[security].make(t)
		version := p.provisioner.RequestProtocol()
		whole := layersOf(t, version, answered(t, p, someID, ping))
		refused := 0
		for layer := range whole {
			for _, key := range slices.Sorted(maps.Keys(whole[layer])) {
				for i := -1; i < len(odd); i++ {
					var value any
					if i >= 0 {
						value = odd[i]
					}
					data := whole.with(layer, key, value, i >= 0).sealed(version, layer)
					t.Run(fmt.Sprintf("%s, layer %d, %s: %T %v", version, layer, key, value, i), func(t *testing.T) { sameReading(t, p, data) })
					if _, err := open(version, data); err != nil {
						refused++
					}
				}
			}
		}
		if _, err := open(version, whole.sealed(version, 2)); err != nil || refused == 0 {
			t.Errorf("%s: got %v for the reply that nothing was done to, and %d others refused", version, err, refused)
		}
	}
}
