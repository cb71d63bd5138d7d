// Package commands runs things.
package commands

import "example.net/tree/provision"

// Run is used once in code, and once more in a test. Nobody else calls it.
func Run() { start() }

func start() { provision.Run(0); provision.Run(1) }
