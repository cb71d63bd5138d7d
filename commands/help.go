package commands

import (
	"strings"
	"text/template"

	"github.com/choria-io/fisk"
)

// globalSection is where fisk's template describes the global flags.
const globalSection = `Global Flags:
{{ GlobalFlags .Context|FlagsToTwoColumns|FormatTwoColumns}}`

// briefSection names them in the help of a command, which is about its own.
const briefSection = `{{if .Context.SelectedCommand -}}
{{GlobalFlags .Context|InBrief|Wrap 0}}{{else -}}
` + globalSection + `{{end -}}
`

// helpTemplate is fisk's, with global flags described by `provision --help` alone.
func helpTemplate() string {
	return strings.Replace(fisk.CompactMainUsageTemplate, globalSection, briefSection, 1)
}

// helpFuncs are the functions that helpTemplate has beside fisk's.
func helpFuncs() template.FuncMap {
	return template.FuncMap{"InBrief": inBrief}
}

// inBrief names the flags that are no answers themselves, as --help is.
func inBrief(flags []*fisk.FlagModel) string {
	var names []string
	for _, f := range flags {
		if f.Hidden || f.Name == "help" || f.Name == "version" {
			continue
		}
		names = append(names, "--"+f.Name)
	}
	return "Global flags, see provision --help: " + strings.Join(names, ", ")
}
