package helper

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// jsonText is a JSON text that errors can point into.
type jsonText struct{ data []byte }

// jsonValue is a part of a jsonText: its text and the byte it starts at.
type jsonValue struct {
	raw []byte
	at  int
}

// jsonMember is one name and its value in an object.
type jsonMember struct {
	name string
	jsonValue
}

func (v jsonValue) isNull() bool { return string(v.raw) == "null" }

// kind names the type of a value, for error messages.
func (v jsonValue) kind() string {
	switch v.raw[0] {
	case '{':
		return "an object"
	case '[':
		return "an array"
	case '"':
		return "a string"
	case 't', 'f':
		return "true or false"
	case 'n':
		return "null"
	default:
		return "a number"
	}
}

// whole returns the text as one value. Its errors make all of the text unusable:
// half an answer, text behind it, another encoding.
func (d jsonText) whole() (jsonValue, error) {
	at := 0
	for rest := d.data; len(rest) > 0; rest = d.data[at:] {
		r, size := utf8.DecodeRune(rest)
		if r == utf8.RuneError && size == 1 {
			return jsonValue{}, d.errorAt(at, "it is not UTF-8")
		}
		at += size
	}
	var raw json.RawMessage
	err := json.Unmarshal(d.data, &raw)
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return jsonValue{}, d.errorAt(int(syntax.Offset)-1, "%w", err) // the offset counts the wrong byte
	}
	if err != nil {
		return jsonValue{}, err
	}
	if at, half := d.halfCharacter(); half != "" {
		return jsonValue{}, d.errorAt(at, `%s is half a character: its other surrogate is missing`, half)
	}
	raw = bytes.TrimSpace(raw)
	return jsonValue{raw, bytes.Index(d.data, raw)}, nil
}

// escapeLength is that of \uXXXX.
const escapeLength = 6

// halfCharacter finds an escaped surrogate without its other half, which would be
// decoded as another character. In valid JSON each backslash begins an escape.
func (d jsonText) halfCharacter() (at int, half string) {
	for at = 0; at < len(d.data); at++ {
		if d.data[at] != '\\' {
			continue
		}
		unit, escaped := d.unitAt(at)
		switch {
		case !escaped:
			at++ // the escaped character, which may be a backslash
		case !utf16.IsSurrogate(unit):
			at += escapeLength - 1
		default:
			low, _ := d.unitAt(at + escapeLength)
			if utf16.DecodeRune(unit, low) == utf8.RuneError {
				return at, string(d.data[at : at+escapeLength])
			}
			at += 2*escapeLength - 1
		}
	}
	return 0, ""
}

// unitAt reads an escape such as \u00e9.
func (d jsonText) unitAt(at int) (unit rune, escaped bool) {
	if at+escapeLength > len(d.data) || d.data[at] != '\\' || d.data[at+1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(d.data[at+2:at+escapeLength]), 16, 16)
	return rune(n), err == nil
}

// members lists an object's members in order. A name given twice is an error:
// two readers of it would not agree which one counts. where names the object in
// errors, empty for the whole text.
func (d jsonText) members(where string, v jsonValue) ([]jsonMember, error) {
	if v.kind() != "an object" {
		return nil, d.errorAt(v.at, "%s is %s, want an object", where, v.kind())
	}
	decoder := json.NewDecoder(bytes.NewReader(v.raw))
	if _, err := decoder.Token(); err != nil {
		return nil, err
	}
	var members []jsonMember
	seen := map[string]bool{}
	for decoder.More() {
		token, err := decoder.Token()
		if err != nil {
			return nil, err
		}
		name, _ := token.(string)
		named := v.at + int(decoder.InputOffset())
		var raw json.RawMessage
		if err := decoder.Decode(&raw); err != nil {
			return nil, err
		}
		if seen[name] {
			return nil, d.errorAt(named-1, "%s gives %q twice", where, name)
		}
		seen[name] = true
		members = append(members, jsonMember{name, jsonValue{raw, v.at + int(decoder.InputOffset()) - len(raw)}})
	}
	return members, nil
}

// decode reads a member into a scalar; want names the type for the error.
func (d jsonText) decode(m jsonMember, into any, want string) error {
	if err := json.Unmarshal(m.raw, into); err != nil {
		return d.errorAt(m.at, "%s is %s, want %s", m.name, m.kind(), want)
	}
	return nil
}

// table reads an object whose values are all strings.
func (d jsonText) table(m jsonMember) (map[string]string, error) {
	members, err := d.members(m.name, m.jsonValue)
	if err != nil {
		return nil, err
	}
	table := make(map[string]string, len(members))
	for _, entry := range members {
		var text *string
		if err := json.Unmarshal(entry.raw, &text); err != nil || text == nil {
			return nil, d.errorAt(entry.at, "%s: %q is %s, want a string; put it in quotes", m.name, entry.name, entry.kind())
		}
		table[entry.name] = *text
	}
	return table, nil
}

const (
	snippetBefore = 24  // bytes shown before the place
	snippetAfter  = 12  // and from it
	snippetReach  = 256 // bytes looked at to recognize a key
)

// keyLike matches what may be a piece of a key or token.
var keyLike = regexp.MustCompile(`[A-Za-z0-9+/=_-]{16,}`)

// errorAt adds a position to an error: line and column, both from 1, the column in
// characters, and the text there. Long runs of base64 are redacted: the answer may
// hold a private key.
func (d jsonText) errorAt(at int, format string, args ...any) error {
	at = max(0, min(at, len(d.data)))
	before := d.data[:at]
	line := bytes.Count(before, []byte("\n")) + 1
	column := utf8.RuneCount(before[bytes.LastIndexByte(before, '\n')+1:]) + 1
	return fmt.Errorf("line %d, column %d: %w, near %q", line, column, fmt.Errorf(format, args...), d.snippet(at))
}

func (d jsonText) snippet(at int) []byte {
	from, to := max(0, at-snippetReach), min(len(d.data), at+snippetReach)
	text := bytes.Clone(d.data[from:to])
	for _, run := range keyLike.FindAllIndex(text, -1) {
		copy(text[run[0]:run[1]], bytes.Repeat([]byte("*"), run[1]-run[0]))
	}
	return text[max(0, at-from-snippetBefore):min(len(text), at-from+snippetAfter)]
}
