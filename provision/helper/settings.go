package helper

import (
	"regexp"
	"strings"

	"choria-provision/config"

	choriaconfig "github.com/choria-io/go-choria/config"
	"github.com/choria-io/go-choria/confkey"
)

// Setting returns a configuration value as the node will read it: go-choria's
// default if the key is absent or has no value.
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

// List returns the elements of a value that the node splits at commas.
func (a Answer) List(key string) []string {
	var items []string
	for item := range strings.SplitSeq(a.Setting(key), ",") {
		if item = strings.TrimSpace(item); item != "" {
			items = append(items, item)
		}
	}
	return items
}

// trueValues matches what go-choria's confkey reads as true; all else is false.
var trueValues = regexp.MustCompile(`(?i)^(1|yes|true|y|t)$`)

func (a Answer) enabled(key string) bool { return trueValues.MatchString(a.Setting(key)) }

// secretKey matches the configuration keys of Choria and its plugins whose
// values are secret themselves; those that name a file are not.
var (
	secretKey = regexp.MustCompile(`(?i)(pass|passwd|password|secret|token|seed|credential|credentials|api_?key|private_?key)s?$`)
	userInURL = regexp.MustCompile(`(://[^/@\s:,]*):[^/@\s,]*@`)
	jwtLike   = regexp.MustCompile(`^eyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.`)
)

// Redacted returns a copy that can be shown. It recognises secrets by the name of
// their key or by their format.
func Redacted(configuration map[string]string) map[string]string {
	shown := make(map[string]string, len(configuration))
	for key, value := range configuration {
		shown[key] = redactValue(key, value)
	}
	return shown
}

func redactValue(key, value string) string {
	secret := secretKey.MatchString(key) || jwtLike.MatchString(value) || strings.Contains(value, "PRIVATE KEY-----")
	if secret && value != "" {
		return config.Redacted
	}
	return userInURL.ReplaceAllString(value, "$1:"+config.Redacted+"@")
}
