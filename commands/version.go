package commands

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"runtime/debug"

	"choria-provision/output"
)

// release, commit and date are set by the linker flags of a build. Without them
// what the Go command stamped counts.
//
//nolint:gochecknoglobals // the linker sets package variables, and nothing else
var (
	release = "development"
	commit  string
	date    string
)

// choriaModule is the library whose version decides what nodes understand.
const choriaModule = "github.com/choria-io/go-choria"

func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && release == "development" && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return release
}

// versions is the JSON document of version.
type versions struct {
	SchemaVersion int    `json:"schema_version"`
	Version       string `json:"version"`
	Commit        string `json:"commit"` // of the source
	Date          string `json:"date"`   // of the commit, in UTC
	Go            string `json:"go"`
	GoChoria      string `json:"go_choria"`
}

// version declares the command; the function of that name is what --version shows.
func (a *app) version() {
	c := a.cli.Command("version", "Shows release, commit and date, and the versions of Go and go-choria it was built with")
	a.chooses(c, func(context.Context) error { return a.runVersion() })
}

func (a *app) runVersion() error {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	v := versions{
		SchemaVersion: output.SchemaVersion,
		Version:       version(),
		Commit:        cmp.Or(commit, setting(info, "vcs.revision"), "unknown"),
		Date:          cmp.Or(date, setting(info, "vcs.time"), "unknown"),
		Go:            runtime.Version(),
		GoChoria:      moduleVersion(info, choriaModule),
	}
	if a.output == "json" {
		return a.writeJSON(v)
	}
	_, err := fmt.Fprintf(a.Out, "provision %s\ncommit    %s\ndate      %s\ngo        %s\ngo-choria %s\n",
		v.Version, v.Commit, v.Date, v.Go, v.GoChoria)
	return err
}

// setting returns what the Go command recorded under a key of a build, or "".
func setting(info *debug.BuildInfo, key string) string {
	for _, s := range info.Settings {
		if s.Key == key {
			return s.Value
		}
	}
	return ""
}

// moduleVersion is the version of a module that a program was built with. Test
// binaries do not know.
func moduleVersion(info *debug.BuildInfo, path string) string {
	for _, module := range info.Deps {
		switch {
		case module.Path != path:
		case module.Replace != nil:
			return module.Replace.Version
		default:
			return module.Version
		}
	}
	return "unknown"
}
