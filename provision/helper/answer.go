package helper

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

// parseAnswer reads the JSON that a helper wrote to stdout. It ignores unknown
// keys, and null is the same as absent. Errors unwrap to ErrAnswer and state
// their position in the text.
func parseAnswer(data []byte) (Answer, error) {
	a, err := readAnswer(data)
	if err != nil {
		return Answer{}, fmt.Errorf("%w: %w", ErrAnswer, err)
	}
	return a, nil
}

// byteOrderMark precedes a text that some Windows programs wrote.
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

// answerMembers splits an answer into its members.
func answerMembers(data []byte) (doc jsonText, members []jsonMember, err error) {
	data = bytes.TrimPrefix(data, []byte(byteOrderMark))
	doc = jsonText{data}
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

// answerIdentity returns the identity that an answer names, nil if it names none.
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

// folded returns the key that equals name except for letter case, or "". Choria's
// own provisioner ignores letter case, and its helpers work unchanged.
func folded(name string, keys iter.Seq[string]) string {
	for key := range keys {
		if strings.EqualFold(name, key) {
			return key
		}
	}
	return ""
}

// readers maps each key of the helper contract to the function that reads it.
func (a *Answer) readers(doc jsonText) map[string]func(jsonMember) error {
	text := func(to *string) func(jsonMember) error {
		return func(m jsonMember) error { return doc.decode(m, to, "a string") }
	}
	flag := func(to *bool) func(jsonMember) error {
		return func(m jsonMember) error { return doc.decode(m, to, "true or false") }
	}
	table := func(to *map[string]string) func(jsonMember) error {
		return func(m jsonMember) (err error) {
			*to, err = doc.table(m)
			return err
		}
	}
	return map[string]func(jsonMember) error{
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
		"server_claims":   func(m jsonMember) error { return a.readClaims(doc, m) },
	}
}

func (a *Answer) readClaims(doc jsonText, m jsonMember) error {
	members, err := doc.members(m.name, m.jsonValue)
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
