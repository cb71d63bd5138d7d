package config

import (
	"bytes"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
)

// YAML is the effective configuration with its secrets masked, as a file that
// Load reads back to the same values, secrets apart.
func (c *Config) YAML() []byte {
	shown := *c
	shown.TokenFile, shown.Token = sourceOf(c.Token, c.TokenFile)
	shown.BrokerPasswordFile, shown.BrokerPassword = sourceOf(c.BrokerPassword, c.BrokerPasswordFile)
	var b bytes.Buffer
	writeStruct(&b, "", reflect.ValueOf(shown))
	return b.Bytes()
}

// JSON is the same as one JSON document.
func (c *Config) JSON() ([]byte, error) { return yaml.YAMLToJSON(c.YAML()) }

// sourceOf shows a secret once: by its file when it has one, else masked.
func sourceOf(secret Secret, file string) (string, Secret) {
	if secret.file != "" {
		return secret.file, Secret{}
	}
	return file, secret
}

func writeStruct(b *bytes.Buffer, indent string, value reflect.Value) {
	t := value.Type()
	for i := range t.NumField() {
		key := t.Field(i).Tag.Get("yaml")
		field := value.Field(i)
		if key == "" || key == "-" {
			continue
		}
		fmt.Fprintf(b, "%s%s:", indent, key)
		writeValue(b, indent, field)
	}
}

func writeValue(b *bytes.Buffer, indent string, field reflect.Value) {
	switch value := field.Interface().(type) {
	case string:
		fmt.Fprintf(b, " %s\n", quote(value))
	case Secret:
		fmt.Fprintf(b, " %s\n", quote(value.String()))
	case Command:
		fmt.Fprintf(b, " %s\n", quote(value.Line))
	case bool, int, Duration:
		fmt.Fprintf(b, " %v\n", value)
	case []Pattern:
		writePatterns(b, indent, value)
	case map[string]string:
		writeTexts(b, indent, value)
	case Headers:
		writeTexts(b, indent, value.masked())
	default:
		b.WriteByte('\n')
		writeStruct(b, indent+"  ", field)
	}
}

func writePatterns(b *bytes.Buffer, indent string, patterns []Pattern) {
	if len(patterns) == 0 {
		b.WriteString(" []\n")
		return
	}
	b.WriteByte('\n')
	for _, p := range patterns {
		fmt.Fprintf(b, "%s  - %s\n", indent, quote(p.Source))
	}
}

func writeTexts(b *bytes.Buffer, indent string, texts map[string]string) {
	if len(texts) == 0 {
		b.WriteString(" {}\n")
		return
	}
	b.WriteByte('\n')
	for _, key := range slices.Sorted(maps.Keys(texts)) {
		fmt.Fprintf(b, "%s  %s: %s\n", indent, quote(key), quote(texts[key]))
	}
}

// plain is text that every YAML reader takes as that text, without quotes.
var plain = regexp.MustCompile(`^[a-zA-Z/][a-zA-Z0-9/_.-]*$`)

// words are plain and read as something else by one YAML reader or another.
var words = []string{"true", "false", "yes", "no", "on", "off", "y", "n", "null"}

// quote writes text so that it is read back byte for byte. Go's escapes
// between double quotes are all YAML's too.
func quote(text string) string {
	switch {
	case plain.MatchString(text) && !slices.Contains(words, strings.ToLower(text)):
		return text
	case strconv.Quote(text) == `"`+strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(text)+`"`: // printable throughout
		return "'" + strings.ReplaceAll(text, "'", "''") + "'"
	default:
		return strconv.Quote(text)
	}
}
