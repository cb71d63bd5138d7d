package provision

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/choria-io/tokens"
)

// Answer is what the helper decided for one node. All of it is optional.
type Answer struct {
	Defer          bool   // leave the node for a later cycle
	Shutdown       bool   // stop the node
	Message        string // why
	Key            string // PEM private key
	Certificate    string // PEM, the node's own first
	CA             string // PEM
	SSLDir         string // where the node keeps them; the node's own word wins
	ServerClaims   *tokens.ServerClaims
	Claims         []string // the names in server_claims, sorted
	Configuration  map[string]string
	ActionPolicies map[string]string // file name to document
	OPAPolicies    map[string]string // file name to document
	Upgrade        string            // the version to upgrade to first
}

// parseAnswer reads the JSON a helper wrote to stdout. Keys it does not know
// are passed over, null is as good as absent. Errors unwrap to ErrHelperAnswer
// and say where in the text they are.
func parseAnswer(data []byte) (Answer, error) {
	a, err := readAnswer(data)
	if err != nil {
		return Answer{}, fmt.Errorf("%w: %w", ErrHelperAnswer, err)
	}
	return a, nil
}

// byteOrderMark is what some editors and programs of Windows begin a text with.
const byteOrderMark = "\ufeff"

func readAnswer(data []byte) (a Answer, err error) {
	doc, members, err := answerMembers(data)
	if err != nil {
		return a, err
	}
	readers := a.readers(doc)
	read := map[string]string{} // key of the contract to key of the answer
	for _, m := range members {
		key := folded(m.name, maps.Keys(readers))
		if key == "" || m.isNull() {
			continue
		}
		if first, twice := read[key]; twice {
			return a, doc.errorAt(m.at, "the answer gives %q twice, once as %q", first, m.name)
		}
		read[key] = m.name
		if err := readers[key](m); err != nil {
			return a, err
		}
	}
	if a.Defer && a.Shutdown {
		return a, errors.New("it says both defer and shutdown; it must choose one")
	}
	return a, nil
}

// answerMembers takes an answer apart.
func answerMembers(data []byte) (doc document, members []member, err error) {
	data = bytes.TrimPrefix(data, []byte(byteOrderMark))
	doc = document{data}
	if len(bytes.TrimSpace(data)) == 0 {
		return doc, nil, errors.New("it wrote nothing to stdout; it must write one JSON object")
	}
	whole, err := doc.whole()
	if err != nil {
		return doc, nil, err
	}
	members, err = doc.members("the answer", whole)
	return doc, members, err
}

// answerIdentity is the node that an answer says it is for, nil when it does not.
func answerIdentity(data []byte) (identity *string, err error) {
	doc, members, err := answerMembers(data)
	for _, m := range members {
		switch {
		case err != nil || !strings.EqualFold(m.name, "identity") || m.isNull():
		case identity != nil:
			err = doc.errorAt(m.at, "the answer gives %q twice, once as %q", "identity", m.name)
		default:
			err = doc.decode(m, &identity, "a string")
		}
	}
	if err != nil {
		return nil, err
	}
	return identity, nil
}

// folded is the one of keys that name stands for, "" for none of them. Letter
// case does not matter: helpers of Choria's own provisioner, which reads keys so,
// work unchanged.
func folded(name string, keys iter.Seq[string]) string {
	for key := range keys {
		if strings.EqualFold(name, key) {
			return key
		}
	}
	return ""
}

// readers is the output table of the helper contract: how each key is read.
func (a *Answer) readers(doc document) map[string]func(member) error {
	text := func(to *string) func(member) error {
		return func(m member) error { return doc.decode(m, to, "a string") }
	}
	flag := func(to *bool) func(member) error {
		return func(m member) error { return doc.decode(m, to, "true or false") }
	}
	table := func(to *map[string]string) func(member) error {
		return func(m member) (err error) {
			*to, err = doc.table(m)
			return err
		}
	}
	return map[string]func(member) error{
		"defer":           flag(&a.Defer),
		"shutdown":        flag(&a.Shutdown),
		"msg":             text(&a.Message),
		"key":             text(&a.Key),
		"certificate":     text(&a.Certificate),
		"ca":              text(&a.CA),
		"ssldir":          text(&a.SSLDir),
		"upgrade":         text(&a.Upgrade),
		"configuration":   table(&a.Configuration),
		"action_policies": table(&a.ActionPolicies),
		"opa_policies":    table(&a.OPAPolicies),
		"server_claims":   func(m member) error { return a.readClaims(doc, m) },
	}
}

func (a *Answer) readClaims(doc document, m member) error {
	members, err := doc.members(m.name, m.value)
	if err != nil {
		return err
	}
	for _, claim := range members {
		a.Claims = append(a.Claims, claim.name)
	}
	slices.Sort(a.Claims)
	a.ServerClaims = &tokens.ServerClaims{}
	if err := json.Unmarshal(m.raw, a.ServerClaims); err != nil {
		var wrong *json.UnmarshalTypeError
		if errors.As(err, &wrong) {
			return doc.errorAt(m.at+int(wrong.Offset), "server_claims: %s is a %s, want %s", wrong.Field, wrong.Value, wrong.Type)
		}
		return doc.errorAt(m.at, "server_claims: %w", err)
	}
	if exp := a.ServerClaims.ExpiresAt; exp != nil && (exp.Year() < 1970 || exp.Year() > 9999) {
		return doc.errorAt(m.at, "server_claims: exp is no date of this calendar; it is in seconds since 1970")
	}
	return nil
}
