package commands

import "runtime/debug"

// release is set by the Makefile's linker flags.
var release = "development"

func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && release == "development" && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return release
}
