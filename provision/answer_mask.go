package provision

import (
	"regexp"
	"strings"

	"choria-provision/config"
)

// secretKey matches the configuration keys of Choria and its plugins whose
// values are secret themselves; those that name a file are not.
var (
	secretKey = regexp.MustCompile(`(?i)(pass|passwd|password|secret|token|seed|credential|credentials|api_?key|private_?key)s?$`)
	userInURL = regexp.MustCompile(`(://[^/@\s:,]*):[^/@\s,]*@`)
	jwtLike   = regexp.MustCompile(`^eyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.`)
)

// maskConfiguration returns a copy that can be shown: secrets are ****, by the
// name of their key or by their looks.
func maskConfiguration(configuration map[string]string) map[string]string {
	shown := make(map[string]string, len(configuration))
	for key, value := range configuration {
		shown[key] = maskValue(key, value)
	}
	return shown
}

func maskValue(key, value string) string {
	secret := secretKey.MatchString(key) || jwtLike.MatchString(value) || strings.Contains(value, "PRIVATE KEY-----")
	if secret && value != "" {
		return config.Redacted
	}
	return userInURL.ReplaceAllString(value, "$1:"+config.Redacted+"@")
}
