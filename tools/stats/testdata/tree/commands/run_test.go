package commands

import "testing"

// Whoever runs this
// is a stranger here.
func TestRun(t *testing.T) { Run() }
