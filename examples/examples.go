// Package examples holds what `provision init` writes: a configuration, a Choria
// client configuration and a helper for each kind of network.
package examples

import "embed"

// Files are the examples by file name.
//
//go:embed *.yaml *.conf *.sh
var Files embed.FS

// Dir is the directory that the examples name in their paths.
const Dir = "/etc/choria-provision"
