package commands

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"

	"choria-provision/output"
)

// release is set by the Makefile's linker flags.
var release = "development"

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
	Go            string `json:"go"`
	GoChoria      string `json:"go_choria"`
}

// version declares the command; the function of that name is what --version shows.
func (a *app) version() {
	c := a.cli.Command("version", "Shows the version, and those of Go and go-choria it was built with")
	a.chooses(c, func(context.Context) error { return a.runVersion() })
}

func (a *app) runVersion() error {
	v := versions{SchemaVersion: output.SchemaVersion, Version: version(), Go: runtime.Version(), GoChoria: "unknown"}
	if info, ok := debug.ReadBuildInfo(); ok {
		v.GoChoria = moduleVersion(info, choriaModule)
	}
	if a.output == "json" {
		return a.writeJSON(v)
	}
	_, err := fmt.Fprintf(a.Out, "provision %s\ngo        %s\ngo-choria %s\n", v.Version, v.Go, v.GoChoria)
	return err
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
