package config

import (
	"fmt"
	"iter"
	"maps"
	"reflect"
	"strings"

	"github.com/agnivade/levenshtein"
	"github.com/goccy/go-yaml/ast"
)

// place is where something stands in the file, both from 1.
type place struct{ line, column int }

func placeOf(node ast.Node) place {
	if tk := node.GetToken(); tk != nil && tk.Position != nil {
		return place{max(tk.Position.Line, 1), max(tk.Position.Column, 1)}
	}
	return place{1, 1}
}

// decoder fills a Config from a YAML tree. It goes on after every problem, and
// remembers where each key stands for the checks that come later.
type decoder struct {
	marks    map[string]place
	anchors  map[string]ast.Node
	problems []Problem
}

func newDecoder(root ast.Node) *decoder {
	d := &decoder{marks: map[string]place{}, anchors: map[string]ast.Node{}}
	if root != nil {
		ast.Walk(d, root)
	}
	return d
}

// Visit collects the anchors of a tree.
func (d *decoder) Visit(node ast.Node) ast.Visitor {
	if anchor, ok := node.(*ast.AnchorNode); ok && anchor.Value != nil {
		d.anchors[anchor.Name.GetToken().Value] = anchor.Value
	}
	return d
}

func (d *decoder) mistake(at place, key, text, remedy string) {
	d.problems = append(d.problems, Problem{Severity: SeverityError, Line: at.line, Column: at.column, Key: key, Text: text, Remedy: remedy})
}

// document decodes a whole file; an empty one leaves cfg as it is.
func (d *decoder) document(root ast.Node, cfg *Config) {
	if root == nil || root.Type() == ast.NullType {
		return
	}
	d.structure("", root, reflect.ValueOf(cfg).Elem())
}

// structure decodes a mapping whose keys are the yaml tags of into.
func (d *decoder) structure(path string, node ast.Node, into reflect.Value) {
	fields := keysOf(into.Type())
	for _, entry := range d.entries(path, node) {
		index, known := fields[entry.key]
		if !known {
			if !d.former(path, entry) {
				d.unknown(path, entry, fields)
			}
			continue
		}
		d.value(join(path, entry.key), entry.value, into.Field(index))
	}
}

// entry is one `key: value` of a mapping.
type entry struct {
	key   string
	at    place
	value ast.Node
}

// entries lists a mapping's keys, reports doubled ones, and marks where each
// value stands. What is no mapping is reported and has none.
func (d *decoder) entries(path string, node ast.Node) []entry {
	node = d.resolve(path, node)
	var values []*ast.MappingValueNode
	switch n := node.(type) {
	case nil:
		return nil
	case *ast.MappingNode:
		values = n.Values
	case *ast.MappingValueNode:
		values = []*ast.MappingValueNode{n}
	case *ast.NullNode:
		return nil
	default:
		d.mistake(placeOf(node), path, "holds "+kind(node), "write keys here, one `key: value` a line")
		return nil
	}
	var entries []entry
	first := map[string]place{}
	for _, v := range values {
		e := entry{key: keyText(v.Key), at: placeOf(v.Key), value: v.Value}
		if v.Key.IsMergeKey() {
			d.mistake(e.at, path, "merge keys (<<) are not read", "write the keys out")
			continue
		}
		full := join(path, e.key)
		if before, doubled := first[e.key]; doubled {
			d.mistake(e.at, full, fmt.Sprintf("was already given at line %d", before.line), "keep one of the two")
			continue
		}
		first[e.key] = e.at
		d.marks[full] = e.at
		entries = append(entries, e)
	}
	return entries
}

func keyText(key ast.MapKeyNode) string {
	if tk := key.GetToken(); tk != nil {
		return tk.Value
	}
	return ""
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// keysOf maps the keys of a struct type to the indices of its fields.
func keysOf(t reflect.Type) map[string]int {
	keys := map[string]int{}
	for i := range t.NumField() {
		if key := t.Field(i).Tag.Get("yaml"); key != "" && key != "-" {
			keys[key] = i
		}
	}
	return keys
}

// unknown reports a key that is none of fields and names the one that may have
// been meant. Only the part that can be a key is shown: the rest may be a
// secret with its space forgotten.
func (d *decoder) unknown(path string, e entry, fields map[string]int) {
	shown := e.key
	if i := strings.IndexFunc(shown, func(r rune) bool { return r != '_' && r != '-' && r != '.' && !alphanumeric(r) }); i >= 0 {
		shown = shown[:i]
	}
	if len(shown) > 40 {
		shown = shown[:40]
	}
	text := "no such key"
	if path != "" {
		text = "no such key below " + path
	}
	d.mistake(e.at, join(path, shown), text, suggestion(path, shown, fields))
}

func alphanumeric(r rune) bool {
	return r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
}

// suggestion names the nearest key of the same mapping, else the mapping that
// does have this key.
func suggestion(path, key string, fields map[string]int) string {
	if near := Nearest(key, maps.Keys(fields)); near != "" {
		return "write " + near
	}
	for _, home := range []struct {
		path string
		keys map[string]int
	}{{"", keysOf(reflect.TypeFor[Config]())}, {"features", keysOf(reflect.TypeFor[Features]())}, {"pushgateway", keysOf(reflect.TypeFor[Pushgateway]())}} {
		_, exact := home.keys[key]
		switch {
		case !exact || home.path == path:
		case home.path == "":
			return "write it at the left margin, outside of " + path
		default:
			return fmt.Sprintf("write it below %s: as %s.%s", home.path, home.path, key)
		}
	}
	return "take it out"
}

// Nearest returns the known word that a mistyped one differs from in the fewest
// letters, at most a third of them and one, whatever their case; empty when none
// does. The first in the alphabet wins among equals.
func Nearest(word string, known iter.Seq[string]) string {
	best, distance := "", len(word)/3+1
	for candidate := range known {
		d := levenshtein.ComputeDistance(strings.ToLower(word), candidate)
		if d < distance || d == distance && (best == "" || candidate < best) {
			best, distance = candidate, d
		}
	}
	return best
}
