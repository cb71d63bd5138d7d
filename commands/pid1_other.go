//go:build !linux

package commands

// AsProcess1 does nothing where there are no containers: see pid1_linux.go.
func AsProcess1() (code int, done bool) { return 0, false }
