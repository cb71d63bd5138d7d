package commands

import (
	"errors"
)

// The exit codes of the product; others script against them.
const (
	exitDone        = 0 // also when nothing was waiting
	exitRun         = 1 // the run could not be done
	exitUsage       = 2 // usage or configuration
	exitNodes       = 3 // the run was done and at least one node failed
	exitNothing     = 4 // nothing was done: a lock, a pause, a standby role, or a hold of each named node
	exitInterrupted = 5 // interrupted or timed out before all nodes were handled
)

// The causes that decide an exit code and belong to no other package.
var (
	errNodesFailed = errors.New("nodes failed")
	errNothing     = errors.New("nothing was done")
	errInterrupted = errors.New("interrupted before all nodes were handled")
	errConfig      = errors.New("the configuration cannot be used")
)

// codes maps causes to exit codes; the first match wins.
var codes = []struct {
	cause error
	code  int
}{
	{errConfig, exitUsage},
	{errInterrupted, exitInterrupted},
	{errNodesFailed, exitNodes},
	{errNothing, exitNothing},
}

func exitCode(err error, unattended bool) int {
	if err == nil {
		return exitDone
	}
	var usage usageError
	if errors.As(err, &usage) {
		return exitUsage
	}
	var command commandEnded
	if errors.As(err, &command) {
		return command.code
	}
	for _, row := range codes {
		if !errors.Is(err, row.cause) {
			continue
		}
		if row.code == exitNothing && unattended {
			return exitDone
		}
		return row.code
	}
	return exitRun
}
