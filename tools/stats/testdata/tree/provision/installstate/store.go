// Package installstate has no test.
package installstate

func start() {}
