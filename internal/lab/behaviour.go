package lab

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/google/renameio/v2"
)

// Behaviour is how the sample helper treats a node. The zero one is good.
type Behaviour struct {
	Do      string         `json:"do,omitempty"`      // one of the constants below
	Message string         `json:"message,omitempty"` // msg of Defer and Shutdown, what Fail says
	Version string         `json:"version,omitempty"` // for Upgrade
	Set     map[string]any `json:"set,omitempty"`     // keys of the answer, on top; null leaves one out
}

// What a Behaviour can Do.
const (
	Defer    = "defer"    // not now
	Shutdown = "shutdown" // stop the node
	Fail     = "fail"     // exit 1 with a message on stderr
	Hang     = "hang"     // say nothing, for an hour
	Garbage  = "garbage"  // answer with something that is no JSON
	Other    = "other"    // answer with another node's configuration
	SendKey  = "key"      // pki: make key and certificate instead of signing the CSR
	Upgrade  = "upgrade"  // the good answer, and upgrade to Version first
)

const behaviourFile = "behaviour.json"

// anyNode stands in behaviour.json for every node that is not named there.
const anyNode = "*"

// Behave changes how the sample helper treats a node from now on; "*" is
// every node without one of its own. The same can be written by hand: an
// object of identities in the lab's behaviour.json.
func (l *Lab) Behave(node string, b Behaviour) error {
	l.behaving.Lock()
	defer l.behaving.Unlock()
	all, err := behaviours(l.dir)
	if err != nil {
		return err
	}
	all[node] = b
	text, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return err
	}
	return renameio.WriteFile(filepath.Join(l.dir, behaviourFile), text, 0o600)
}

func behaviours(dir string) (map[string]Behaviour, error) {
	all := map[string]Behaviour{}
	text, err := os.ReadFile(filepath.Join(dir, behaviourFile))
	if errors.Is(err, os.ErrNotExist) {
		return all, nil
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, fmt.Errorf("reading %s: %w", behaviourFile, err)
	}
	return all, nil
}

func behaviourOf(dir, node string) (Behaviour, error) {
	all, err := behaviours(dir)
	if err != nil {
		return Behaviour{}, err
	}
	if b, known := all[node]; known {
		return b, nil
	}
	return all[anyNode], nil
}

// reply is the helper's whole output for a node.
func (b Behaviour) reply(q question, s site, n model) ([]byte, error) {
	switch b.Do {
	case Fail:
		return nil, errors.New(b.text("the behaviour file says so"))
	case Hang:
		time.Sleep(time.Hour)
		return nil, errors.New("nobody ended the hanging helper")
	case Garbage:
		return []byte(`{"configuration": {"identity": "` + q.Identity), nil
	}
	answer, err := b.answer(q, s, n)
	if err != nil {
		return nil, err
	}
	maps.Copy(answer, b.Set)
	maps.DeleteFunc(answer, func(_ string, value any) bool { return value == nil })
	return json.Marshal(answer)
}

func (b Behaviour) answer(q question, s site, n model) (map[string]any, error) {
	switch b.Do {
	case "":
		return n.answer(q, s)
	case Defer:
		return map[string]any{"defer": true, "msg": b.text("the behaviour file says not now")}, nil
	case Shutdown:
		return map[string]any{"shutdown": true, "msg": b.text("the behaviour file says stop")}, nil
	case Other:
		q.Identity = another(q.Identity, s.Nodes)
		return n.answer(q, s)
	case SendKey:
		p, ok := n.(pki)
		if !ok {
			return nil, fmt.Errorf("behaviour %q works with --enrollment %s only", SendKey, PKI)
		}
		return p.answerWithKey(q, s)
	case Upgrade:
		answer, err := n.answer(q, s)
		if err == nil {
			answer["upgrade"] = b.Version
		}
		return answer, err
	}
	return nil, fmt.Errorf("unknown behaviour %q for %s", b.Do, q.Identity)
}

func (b Behaviour) text(otherwise string) string {
	if b.Message != "" {
		return b.Message
	}
	return otherwise
}

// another is the node after this one, or one that does not exist.
func another(node string, nodes []string) string {
	if at := slices.Index(nodes, node); at >= 0 && len(nodes) > 1 {
		return nodes[(at+1)%len(nodes)]
	}
	return "another." + node
}
