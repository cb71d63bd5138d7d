// Command provision brings Choria fleet nodes into service.
//
// See README.md for what it does and docs/architecture.md for how it is built.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"choria-provision/commands"
	"choria-provision/internal/lab"
)

func main() {
	lab.RunIfChild()

	stop, first := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		first(commands.Interrupted{Signal: <-signals})
		if second, ok := (<-signals).(syscall.Signal); ok {
			os.Exit(128 + int(second))
		}
	}()

	os.Exit(commands.Run(stop, os.Args[1:], commands.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}))
}
