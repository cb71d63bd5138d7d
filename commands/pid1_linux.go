package commands

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// AsProcess1 runs this program again as a child when it is process 1, as in a
// container without an init, and returns the child's exit code. done is false in
// any other process.
//
// Process 1 is handed every process whose parent has ended, such as what a
// helper leaves behind, and has to wait for them. The program itself must not:
// waiting for any child takes the exit status away from whatever part of it
// started that child.
func AsProcess1() (code int, done bool) {
	if os.Getpid() != 1 {
		return 0, false
	}
	code, err := superviseSelf()
	if err != nil {
		fmt.Fprintf(os.Stderr, "provision: running as process 1: %v\n", err)
		return exitRun, true
	}
	return code, true
}

// superviseSelf starts the child, hands signals on to it and waits for every
// process until it is the child.
func superviseSelf() (code int, err error) {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	child, err := syscall.ForkExec("/proc/self/exe", os.Args, &syscall.ProcAttr{Env: os.Environ(), Files: []uintptr{0, 1, 2}})
	if err != nil {
		return 0, err
	}
	go func() {
		for s := range signals {
			_ = syscall.Kill(child, s.(syscall.Signal)) // it may have ended
		}
	}()
	for {
		var status syscall.WaitStatus
		ended, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return 0, err
		case ended == child && status.Signaled():
			return 128 + int(status.Signal()), nil
		case ended == child:
			return status.ExitStatus(), nil
		}
	}
}
