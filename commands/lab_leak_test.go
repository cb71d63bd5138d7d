package commands

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"choria-provision/internal/lab"

	"go.uber.org/goleak"
)

// TestWatchLeavesNoGoroutineBehind runs watch in this process, with brokers that
// restart under it. It is not parallel: the goroutines of others would count.
func TestWatchLeavesNoGoroutineBehind(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	const restarts = 2
	l, err := lab.Start(t.Context(), lab.Options{Nodes: 3, Enrollment: lab.Issuer})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { // before the goroutines are counted: the broker has some
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}()
	port := freePort(t)
	keys := map[string]any{
		"interval": "1m", "monitor_port": port, "leader_election": true, "workers": 1, "rpc_timeout": "3s", "helper": slowHelper(t, l),
	}
	if err := l.SetConfig(keys); err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(t.TempDir(), "watch.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	stop, signal := context.WithCancelCause(t.Context())
	ended := make(chan int, 1)
	go func() {
		ended <- Run(stop, []string{"--config", l.ConfigFile(), "--choria-config", l.ChoriaFile(), "--state-dir", l.StateDir(), "watch"},
			Streams{In: strings.NewReader(""), Out: log, Err: log})
	}()
	defer func() {
		signal(Interrupted{syscall.SIGTERM})
		if code := <-ended; code != 0 {
			text, _ := os.ReadFile(log.Name())
			t.Errorf("got exit code %d, want 0\n%s", code, text)
		}
	}()

	await(t, "nodes at work", func() bool { return metric(t, port, "busy_workers") > "0" })
	for range restarts {
		if err := l.RestartBroker(t.Context()); err != nil {
			t.Fatal(err)
		}
		await(t, "health", func() bool { return healthy(port) })
	}
	await(t, "all nodes", func() bool { return metric(t, port, "provisioned") == "3" })
	if got := inService(t, l); len(got) != 3 {
		t.Errorf("in service: %v, want all", got)
	}
}
