package config

import (
	"crypto/x509"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"maps"
)

var (
	labelName  = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)
	headerName = regexp.MustCompile("^[a-zA-Z0-9!#$%&'*+.^_`|~-]+$")
)

// metricLabels are the labels of our metrics, beside site, and those that
// summaries and histograms have by their nature.
var metricLabels = []string{"goversion", "le", "outcome", "quantile", "rpc", "version"}

// checkPushgateway holds the pushgateway keys to what a push needs.
func checkPushgateway(c *Config) []finding {
	p := c.Pushgateway
	found := checkPushURL(p)
	if p.Job == "" {
		found = append(found, mistake("pushgateway.job", "is empty", "write a name, or take it out for choria_provision"))
	}
	found = append(found, checkGrouping(c)...)
	for _, name := range slices.Sorted(maps.Keys(p.Headers)) {
		if !headerName.MatchString(name) || strings.ContainsAny(p.Headers[name], "\r\n") {
			found = append(found, mistake(join("pushgateway.headers", name), "cannot be sent as an HTTP header", "write a name of letters, digits and `-`, and a value of one line"))
		}
	}
	return append(found, checkPushFiles(p)...)
}

// checkGrouping holds that each label can be given. The group is the job, the
// site and grouping: labels that are in it already cannot be given again.
func checkGrouping(c *Config) []finding {
	var found []finding
	for _, name := range slices.Sorted(maps.Keys(c.Pushgateway.Grouping)) {
		key := join("pushgateway.grouping", name)
		switch {
		case name == "job" || name == "site":
			found = append(found, mistake(key, "is part of the group already", "take it out; the key "+map[string]string{"job": "pushgateway.job", "site": "site"}[name]+" sets it"))
		case name == "host" && c.Records == RecordsStreams:
			found = append(found, mistake(key, "is part of the group already: hosts that share records have a group each", "take it out; $PROVISION_HOST names the host"))
		case slices.Contains(metricLabels, name):
			found = append(found, mistake(key, "is a label that metrics have themselves: each push would fail", "choose another name"))
		case !labelName.MatchString(name) || strings.HasPrefix(name, "__"):
			found = append(found, mistake(key, "is no label name", "use letters, digits and `_`, not beginning with a digit or `__`"))
		case c.Pushgateway.Grouping[name] == "":
			found = append(found, mistake(key, "is empty", "write a value, or take it out"))
		}
	}
	return found
}

func checkPushURL(p Pushgateway) []finding {
	const key = "pushgateway.url"
	if p.URL == "" {
		if len(p.Grouping)+len(p.Headers) > 0 || p.Username+p.PasswordFile+p.CA != "" {
			return []finding{mistake(key, "is missing: nothing would be pushed", "write the Pushgateway's URL").because("pushgateway")}
		}
		return nil
	}
	u, err := url.Parse(p.URL)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return []finding{mistake(key, "is not an http or https URL", "write one, such as http://pushgateway.example.net:9091")}
	case u.User != nil:
		return []finding{mistake(key, "holds a user or password, which a URL does not hide", "write them as pushgateway.username and pushgateway.password_file")}
	case u.RawQuery != "" || u.Fragment != "":
		return []finding{mistake(key, "has a part behind ? or #", "write the address alone")}
	}
	return nil
}

func checkPushFiles(p Pushgateway) []finding {
	var found []finding
	if p.PasswordFile != "" {
		found = append(found, checkSecretFile("pushgateway.password_file", p.PasswordFile)...)
		if p.Username == "" {
			found = append(found, mistake("pushgateway.username", "is missing beside password_file", "write the user's name").because("pushgateway.password_file"))
		}
	}
	if p.Username != "" && p.PasswordFile == "" {
		found = append(found, mistake("pushgateway.password_file", "is missing beside username", "name the file that holds the password").because("pushgateway.username"))
	}
	if p.CA != "" {
		text, problem := readKeyFile("pushgateway.ca", p.CA)
		switch {
		case problem != nil:
			found = append(found, *problem)
		case !x509.NewCertPool().AppendCertsFromPEM(text):
			found = append(found, mistake("pushgateway.ca", fmt.Sprintf("%s holds no certificate", absolute(p.CA)), "name a file with certificates in PEM"))
		}
	}
	return found
}
