package commands

import (
	"slices"
	"strings"
	"testing"
	"time"

	"choria-provision/internal/lab"

	"github.com/choria-io/go-choria/backoff"
	election "github.com/choria-io/go-choria/providers/election/streams"
)

// await asks until it is so. There is no event to wait for where another
// process writes a file; the test ends when its context does.
func await(t *testing.T, what string, so func() bool) {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for !so() {
		select {
		case <-ticker.C:
		case <-deadline.C:
			t.Fatalf("%s did not come", what)
		}
	}
}

func awaitAction(t *testing.T, l *lab.Lab, node, action string) {
	t.Helper()
	await(t, action+" on "+node, func() bool { return slices.Contains(asked(t, l, node), action) })
}

func awaitHelper(t *testing.T, l *lab.Lab) {
	t.Helper()
	await(t, "the helper", func() bool {
		return slices.ContainsFunc(helpersLeft(t, l), func(line string) bool { return strings.Contains(line, "lab-helper") })
	})
}

// leads has go-choria's election say when it was won, and hurry.
func leads(won chan<- struct{}) []election.Option {
	return []election.Option{
		election.OnWon(func() { won <- struct{}{} }),
		election.WithBackoff(backoff.FiveSec),
	}
}
