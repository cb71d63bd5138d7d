// Command provision brings Choria fleet nodes into service.
//
// See README.md for what it does and docs/architecture.md for how it is built.
package main

import (
	"os"

	"choria-provision/commands"
	"choria-provision/internal/lab"
)

func main() {
	lab.RunIfChild() // servers and helper of provision lab are this program again

	if code, done := commands.AsProcess1(); done {
		os.Exit(code)
	}
	streams := commands.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}
	os.Exit(commands.Run(commands.Signals(), os.Args[1:], streams))
}
