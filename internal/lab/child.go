package lab

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// The names by which a program plays the lab's children. A name survives what
// go-choria's restart does: it executes its own first argument again.
const (
	serverName = "choria-server" // in the node's directory
	helperName = "lab-helper"    // in the lab's bin directory
	askerName  = "lab-asker"     // likewise
	fleetName  = "lab-fleet"     // likewise
)

// RunIfChild returns when this process was started as what its command line
// says. Started by a lab as a server, sample helper, client or simulated fleet it does that
// work instead and ends the process. It comes first in main and in TestMain.
func RunIfChild() {
	dir, name := filepath.Split(os.Args[0])
	var err error
	switch name {
	case serverName:
		err = runServer(filepath.Clean(dir))
	case helperName:
		err = runHelper(filepath.Dir(filepath.Clean(dir)), os.Stdin, os.Stdout)
	case askerName:
		out := os.Stdout
		os.Stdout = os.Stderr //nolint:reassign // go-choria prints to it, where the answer goes
		err = runAsker(filepath.Dir(filepath.Clean(dir)), os.Stdin, out)
	case fleetName:
		err = runFleet(os.Stdin, os.Stdout)
	default:
		return
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// endWithParent ends the process when the lab's does, in whatever way: only
// then does the pipe that is our input end. It stays open through a restart.
func endWithParent() {
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(0)
}
