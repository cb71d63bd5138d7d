// Command provision brings Choria fleet nodes into service.
//
// See README.md for what it does and docs/architecture.md for how it is built.
package main

import (
	"os"

	"choria-provision/commands"
)

func main() {
	commands.RunIfLabChild()
	if code, done := commands.AsProcess1(); done {
		os.Exit(code)
	}
	streams := commands.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}
	os.Exit(commands.Run(commands.Signals(), os.Args[1:], streams))
}
