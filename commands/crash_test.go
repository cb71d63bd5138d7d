package commands

import (
	"errors"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"choria-provision/internal/lab"
	"choria-provision/provision/installstate"
)

// TestKilledRunsOnRealServers kills `once` in the midst of its work on real
// servers, again and again, and then lets it finish.
func TestKilledRunsOnRealServers(t *testing.T) {
	t.Parallel()
	var kills atomic.Int64
	var told atomic.Int64
	firstChange := map[string]string{
		lab.Insecure: "rpcutil#inventory", lab.PKI: "choria_provision#gencsr", lab.Issuer: "choria_provision#gen25519",
	}
	t.Run("networks", func(t *testing.T) {
		for enrollment, first := range firstChange {
			t.Run(enrollment, func(t *testing.T) {
				t.Parallel()
				l := startLab(t, lab.Options{Nodes: 3, Enrollment: enrollment})
				if err := l.SetConfig(map[string]any{"workers": 1}); err != nil {
					t.Fatal(err)
				}
				kills.Add(killOften(t, l, first))
				finish(t, l)
				told.Add(1)
			})
		}
	})
	t.Logf("%d kills", kills.Load())
	if int(told.Load()) == len(firstChange) && kills.Load() < 12 {
		t.Errorf("got %d kills, want a dozen", kills.Load())
	}
}

// killOften kills one run at each of the moments that matter. It counts the
// runs that died of it.
func killOften(t *testing.T, l *lab.Lab, first string) (kills int64) {
	t.Helper()
	const configure, restart = "choria_provision#configure", "choria_provision#restart"
	for _, action := range []string{first, "helper", configure, restart, configure, restart} {
		kill := func() bool { return killAt(t, l, action, func() int { return timesOf(t, l, action) }) }
		if action == "helper" {
			kill = func() bool { return killAtHelper(t, l) }
		}
		if kill() {
			kills++
		}
		await(t, "the end of the helper", func() bool { return len(helpersLeft(t, l)) == 0 })
		holdRecords(t, l)
	}
	return kills
}

// killAt starts a run and kills it as soon as a server has carried out one more
// of these actions. It is false when the run was done before that.
func killAt(t *testing.T, l *lab.Lab, what string, done func() int) bool {
	t.Helper()
	before := done()
	cmd, stdout, stderr := provisionCommand(t, l, "once", "--no-metrics")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case err := <-ended:
			t.Logf("the run ended before %s: %v\n%s%s", what, err, stdout, stderr)
			return false
		case <-ticker.C:
		}
		if done() > before {
			break
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Logf("kill at %s: %v", what, err)
	}
	var exit *exec.ExitError
	err := <-ended
	return errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL
}

// killAtHelper kills a run while its helper is at work.
func killAtHelper(t *testing.T, l *lab.Lab) bool {
	t.Helper()
	if err := l.Behave("*", lab.Behaviour{Do: lab.Hang}); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := l.Behave("*", lab.Behaviour{}); err != nil {
			t.Fatal(err)
		}
	}()
	return killAt(t, l, "the helper", func() int {
		return len(slices.DeleteFunc(helpersLeft(t, l), func(line string) bool { return !strings.Contains(line, "lab-helper") }))
	})
}

// timesOf is how often the lab's servers have carried out an action.
func timesOf(t *testing.T, l *lab.Lab, action string) (n int) {
	t.Helper()
	for _, name := range l.NodeNames() {
		n += len(carriedOut(t, l, name, action))
	}
	return n
}

// carriedOut are the positions, in a server's journal, of actions that it did
// not refuse.
func carriedOut(t *testing.T, l *lab.Lab, name string, actions ...string) (at []int) {
	t.Helper()
	list, err := l.Actions(name)
	if err != nil {
		t.Fatal(err)
	}
	for i, a := range list {
		if a.Status == 0 && slices.Contains(actions, a.Name) {
			at = append(at, i)
		}
	}
	return at
}

// holdRecords wants whole records and free locks.
func holdRecords(t *testing.T, l *lab.Lab) {
	t.Helper()
	entries, err := installstate.NewStore(l.StateDir()).List()
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Err != nil || e.Locked {
			t.Errorf("got %+v, want a whole record and a free lock", e)
		}
	}
}

// finish lets runs do the rest, as a timer would, and holds what came of it.
func finish(t *testing.T, l *lab.Lab) {
	t.Helper()
	names := l.NodeNames()
	once := func(args ...string) {
		if r := runIn(t, l, append([]string{"once"}, args...)...); r.code != 0 {
			t.Errorf("got exit code %d\n%s%s", r.code, r.stdout, r.stderr)
		}
	}
	once()
	// A run that died between noting the restart and asking for it leaves a
	// node held. Verify waits for those that do restart; then it can be forced.
	if got := inService(t, l); len(got) != len(names) {
		once("--force")
	}
	if got := inService(t, l); !slices.Equal(got, names) {
		t.Errorf("in service: %v, want %v", got, names)
	}
	once()
	records, err := installstate.NewStore(l.StateDir()).List()
	if err != nil || len(records) != len(names) {
		t.Fatalf("got records %+v, %v, want one for each node", records, err)
	}
	for _, e := range records {
		if e.Record.Phase != installstate.Complete || e.Record.PreviousID != "" {
			t.Errorf("got record %+v, want the first installation, complete", e.Record)
		}
	}
	doc, err := gatherStatus(installstate.NewStore(l.StateDir()), time.Now())
	for _, node := range doc.Nodes {
		if node.State != stateHeld || err != nil {
			t.Errorf("status shows %+v, %v, want nothing that waits for anybody", node, err)
		}
	}
	for _, name := range names {
		configured := carriedOut(t, l, name, "choria_provision#configure")
		restarted := carriedOut(t, l, name, "choria_provision#restart")
		t.Logf("%s: configured %d times, restarted %d times", name, len(configured), len(restarted))
		keys := append([]int{-1}, carriedOut(t, l, name, "choria_provision#gen25519", "choria_provision#gencsr")...)
		if len(restarted) != 1 || slices.Max(configured) < slices.Max(keys) || slices.Max(configured) > restarted[0] || slices.Max(keys) > restarted[0] {
			t.Errorf("%s: got keys %v, configurations %v, restarts %v, want that order and one restart", name, keys, configured, restarted)
		}
	}
}
