package provision

import (
	"regexp"
	"strings"

	choriaconfig "github.com/choria-io/go-choria/config"
	"github.com/choria-io/go-choria/confkey"
)

// setting is a configuration value as the node will read it: what is absent or
// has no value is what go-choria takes by default.
func (a Answer) Setting(key string) string {
	if a.isSet(key) {
		return strings.TrimSpace(a.Configuration[key])
	}
	for _, known := range []any{choriaconfig.Config{}, choriaconfig.ChoriaPluginConfig{}} {
		if value, found := confkey.DefaultString(known, key); found {
			return value
		}
	}
	return ""
}

// isSet reports whether the node reads a value of the answer for this key.
func (a Answer) isSet(key string) bool { return strings.TrimSpace(a.Configuration[key]) != "" }

// list is a configuration value that the node splits at commas.
func (a Answer) List(key string) []string {
	var items []string
	for item := range strings.SplitSeq(a.Setting(key), ",") {
		if item = strings.TrimSpace(item); item != "" {
			items = append(items, item)
		}
	}
	return items
}

// yes matches what go-choria's confkey takes for true; anything else is false.
var yes = regexp.MustCompile(`(?i)^(1|yes|true|y|t)$`)

func (a Answer) on(key string) bool { return yes.MatchString(a.Setting(key)) }
