package config

import (
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
	"github.com/kballard/go-shellquote"
)

// maxAliases bounds aliases of aliases: one that names itself ends there.
const maxAliases = 8

// value decodes node into field, whose type decides what may stand there.
func (d *decoder) value(key string, node ast.Node, field reflect.Value) {
	node = d.resolve(key, node)
	if node == nil {
		return
	}
	if _, isMap := node.(ast.MapNode); !isMap { // a mapping's own place is its first colon
		d.marks[key] = placeOf(node)
	}
	switch into := field.Addr().Interface().(type) {
	case *string:
		*into, _ = d.text(key, node)
	case *Secret:
		d.secret(key, node, into)
	case *int:
		d.integer(key, node, into)
	case *bool:
		d.boolean(key, node, into)
	case *Duration:
		d.duration(key, node, into)
	case *Command:
		d.command(key, node, into)
	case *[]Pattern:
		d.patterns(key, node, into)
	case *map[string]string:
		*into = d.texts(key, node)
	case *Headers:
		*into = d.texts(key, node)
	default:
		d.structure(key, node, field)
	}
}

// resolve follows aliases, anchors and the tag !!str to the node they stand
// for; nil means that the problem was reported.
func (d *decoder) resolve(key string, node ast.Node) ast.Node {
	at := placeOf(node)
	for range maxAliases {
		switch n := node.(type) {
		case *ast.AnchorNode:
			node = n.Value
		case *ast.AliasNode:
			node = d.anchors[n.Value.GetToken().Value]
		case *ast.TagNode:
			if n.Start.Value != "!!str" {
				d.mistake(at, key, "tags are not read", "take the tag out")
				return nil
			}
			node = n.Value
		default:
			return node
		}
		if node == nil {
			break
		}
	}
	d.mistake(at, key, "this alias leads nowhere", "write the value out")
	return nil
}

// text takes a scalar as it stands in the source: 0123, 1e5, yes and 0x10 stay
// what they are. Nothing, ~ and null mean that the key is not set: ok is false.
// The line end of a block text (| or >) is not part of it, as that of a secret's
// file is not: every value is a name, a path or a secret.
func (d *decoder) text(key string, node ast.Node) (text string, ok bool) {
	switch n := node.(type) {
	case *ast.NullNode:
		return "", false
	case *ast.LiteralNode:
		return strings.TrimRight(n.Value.Value, "\r\n"), true
	case ast.ScalarNode:
		return n.GetToken().Value, true
	}
	d.mistake(placeOf(node), key, "is a text and holds "+kind(node), "write one text, between quotes when it begins with a special character")
	return "", false
}

func (d *decoder) secret(key string, node ast.Node, into *Secret) {
	if node.Type() == ast.NullType {
		at := placeOf(node)
		p := warning(key, "is given and empty", "write the text between quotes, also when it is ~ or null, or take the key out")
		p.Line, p.Column = at.line, at.column
		d.problems = append(d.problems, p.Problem)
		return
	}
	if text, ok := d.text(key, node); ok {
		*into = NewSecret(text)
	}
}

func (d *decoder) integer(key string, node ast.Node, into *int) {
	if node.Type() == ast.NullType {
		return
	}
	source := node.GetToken().Value
	n, err := strconv.Atoi(source)
	if node.Type() == ast.IntegerType && err == nil && strconv.Itoa(n) == source {
		*into = n
		return
	}
	remedy := "write a whole number in decimal, without quotes"
	if err == nil && node.Type() == ast.StringType {
		remedy = fmt.Sprintf("write %d, without quotes", n)
	}
	d.mistake(placeOf(node), key, "is a whole number and holds "+shown(node), remedy)
}

// boolean also takes the words of YAML 1.1, which the peer's files may use.
func (d *decoder) boolean(key string, node ast.Node, into *bool) {
	if node.Type() == ast.NullType {
		return
	}
	if _, scalar := node.(ast.ScalarNode); scalar && !quoted(node) {
		switch strings.ToLower(node.GetToken().Value) {
		case "true", "yes", "on", "y":
			*into = true
			return
		case "false", "no", "off", "n":
			*into = false
			return
		}
	}
	d.mistake(placeOf(node), key, "is true or false and holds "+kind(node), "write true or false, without quotes")
}

func (d *decoder) duration(key string, node ast.Node, into *Duration) {
	text, ok := d.text(key, node)
	if !ok || text == "" {
		return
	}
	parsed, err := ParseDuration(text)
	if err == nil {
		*into = parsed
		return
	}
	remedy := "write a number and a unit, such as 30s, 10m, 1h, 1d or 1y"
	if _, err := strconv.Atoi(text); err == nil {
		remedy = fmt.Sprintf("write the unit too: %ss, %sm, %sh or %sd", text, text, text, text)
	}
	d.mistake(placeOf(node), key, fmt.Sprintf("%q %v", text, err), remedy)
}

func (d *decoder) command(key string, node ast.Node, into *Command) {
	text, ok := d.text(key, node)
	if !ok {
		return
	}
	into.Line = text
	args, err := shellquote.Split(text)
	if err != nil {
		d.mistake(placeOf(node), key, "ends within a quote or after a backslash", "close the quote; the line is split as a shell would")
		return
	}
	if len(args) > 0 {
		into.Args = args
	}
}

// patterns decodes a list of regular expressions; one between slashes is the
// bare expression.
func (d *decoder) patterns(key string, node ast.Node, into *[]Pattern) {
	if node.Type() == ast.NullType {
		return
	}
	list, ok := node.(*ast.SequenceNode)
	if !ok {
		d.mistake(placeOf(node), key, "is a list and holds "+kind(node), "write one pattern a line, each behind `- `")
		return
	}
	patterns := []Pattern{}
	for i, item := range list.Values {
		if p, ok := d.pattern(fmt.Sprintf("%s[%d]", key, i), item); ok {
			patterns = append(patterns, p)
		}
	}
	*into = patterns
}

func (d *decoder) pattern(key string, node ast.Node) (Pattern, bool) {
	if node = d.resolve(key, node); node == nil {
		return Pattern{}, false
	}
	source, ok := d.text(key, node)
	bare := source
	if len(bare) >= 2 && strings.HasPrefix(bare, "/") && strings.HasSuffix(bare, "/") {
		bare = bare[1 : len(bare)-1]
	}
	if bare == "" {
		if ok || node.Type() == ast.NullType {
			d.mistake(placeOf(node), key, "is empty and would match every name", "write a regular expression, or take the line out")
		}
		return Pattern{}, false
	}
	compiled, err := regexp.Compile(bare)
	if err != nil {
		d.mistake(placeOf(node), key, "does not compile: "+strings.TrimPrefix(err.Error(), "error parsing regexp: "), "write a regular expression in Go's syntax (RE2), between single quotes")
		return Pattern{}, false
	}
	return Pattern{compiled, source}, true
}

// texts decodes a mapping of texts, byte for byte.
func (d *decoder) texts(path string, node ast.Node) map[string]string {
	var texts map[string]string
	for _, e := range d.entries(path, node) {
		key := join(path, e.key)
		value := d.resolve(key, e.value)
		if value == nil {
			continue
		}
		d.marks[key] = placeOf(value)
		if value.Type() == ast.NullType {
			d.mistake(placeOf(value), key, "has no value", `write the text, between quotes when it is empty, ~ or null`)
			continue
		}
		if text, ok := d.text(key, value); ok {
			if texts == nil {
				texts = map[string]string{}
			}
			texts[e.key] = text
		}
	}
	return texts
}

// shown is a number as it is written, else its kind.
func shown(node ast.Node) string {
	switch node.(type) {
	case *ast.IntegerNode, *ast.FloatNode:
		return node.GetToken().Value
	}
	return kind(node)
}

func quoted(node ast.Node) bool {
	tk := node.GetToken()
	return tk.Type == token.SingleQuoteType || tk.Type == token.DoubleQuoteType
}

// kind says what node is without showing what is in it.
func kind(node ast.Node) string {
	switch node.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return "a mapping"
	case *ast.SequenceNode:
		return "a list"
	case *ast.BoolNode:
		return "true or false"
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return "a number"
	case *ast.NullNode:
		return "nothing"
	}
	if quoted(node) {
		return "a text between quotes"
	}
	return "a text"
}
