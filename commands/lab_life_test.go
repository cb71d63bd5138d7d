package commands

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"choria-provision/internal/fleet"
	"choria-provision/internal/lab"
	"choria-provision/provision/installstate"
)

// heldHelper makes the lab's helper wait until release is called; started
// counts the ones that were.
func heldHelper(t *testing.T, l *lab.Lab, keys map[string]any) (release func(), started func() int) {
	t.Helper()
	dir := t.TempDir()
	gate, script := filepath.Join(dir, "answer"), filepath.Join(dir, "helper.sh")
	text := "echo x >> " + filepath.Join(dir, "started") + "\nuntil test -e " + gate + "; do sleep 0.05; done\nexec " + filepath.Join(l.Dir(), "bin", "lab-helper") + "\n"
	if err := os.WriteFile(script, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	all := map[string]any{"helper": "/bin/sh " + script, "helper_timeout": "1m"}
	for key, value := range keys {
		all[key] = value
	}
	if err := l.SetConfig(all); err != nil {
		t.Fatal(err)
	}
	release = func() {
		if err := os.WriteFile(gate, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	started = func() int {
		lines, _ := os.ReadFile(filepath.Join(dir, "started"))
		return strings.Count(string(lines), "x")
	}
	return release, started
}

func TestNodeWorksBesideOnceAndNeverOnTheSameNode(t *testing.T) {
	t.Parallel()
	l := startLab(t, lab.Options{Nodes: 2, Enrollment: lab.PKI})
	first, second := l.NodeNames()[0], l.NodeNames()[1]
	release, _ := heldHelper(t, l, nil)
	once, onceOut, onceErr := provisionCommand(t, l, "once", "--match", first)
	if err := once.Start(); err != nil {
		t.Fatal(err)
	}
	awaitAction(t, l, first, "choria_provision#gencsr")

	before := asked(t, l, first)
	same := runIn(t, l, "node", first)
	if same.code != 4 || !strings.Contains(same.stdout+same.stderr, "another process is at work: process ") {
		t.Errorf("the same node: got exit code %d, want 4 and the reason\n%s%s", same.code, same.stdout, same.stderr)
	}
	if got := asked(t, l, first); !slices.Equal(got, before) {
		t.Errorf("the same node was asked for %v by the second process", got[len(before):])
	}
	if r := runIn(t, l, "restart", first); r.code != 4 {
		t.Errorf("restart of a node at work: got exit code %d, want 4\n%s", r.code, r.stderr)
	}
	if r := runIn(t, l, "once", "--dry-run"); r.code != 0 || !strings.Contains(r.stdout+r.stderr, "process ") {
		t.Errorf("a dry run beside a run: got exit code %d, want 0 and a word about it\n%s%s", r.code, r.stdout, r.stderr)
	}
	other, otherOut, otherErr := provisionCommand(t, l, "node", second)
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	awaitAction(t, l, second, "choria_provision#gencsr") // both are at work now
	release()
	for _, r := range []ran{ended(t, once.Wait(), onceOut, onceErr), ended(t, other.Wait(), otherOut, otherErr)} {
		if r.code != 0 {
			t.Errorf("got exit code %d\n%s%s", r.code, r.stdout, r.stderr)
		}
	}
	if got := inService(t, l); len(got) != 2 {
		t.Errorf("in service: %v, want both", got)
	}
}

func TestReprovisionSendsANodeBackAndItIsProvisionedAnew(t *testing.T) {
	t.Parallel()
	for _, enrollment := range []string{lab.Insecure, lab.PKI, lab.Issuer} {
		t.Run(enrollment, func(t *testing.T) {
			t.Parallel()
			l := startLab(t, lab.Options{Nodes: 1, Enrollment: enrollment})
			name := l.NodeNames()[0]
			if r := runIn(t, l, "once"); r.code != 0 {
				t.Fatalf("got exit code %d\n%s", r.code, r.stderr)
			}
			if got := inService(t, l); len(got) != 1 {
				t.Fatalf("in service: %v, want the node", got)
			}
			if r := runIn(t, l, "reset", name, "--reprovision"); r.code != 0 {
				t.Fatalf("reset: got exit code %d\n%s%s", r.code, r.stdout, r.stderr)
			}
			if _, err := installstate.NewStore(l.StateDir()).Load(name); err == nil {
				t.Error("the record is still there")
			}
			await(t, "the node's return", func() bool { return runIn(t, l, "discover", "--names").stdout == name+"\n" })
			if r := runIn(t, l, "once"); r.code != 0 {
				t.Fatalf("got exit code %d\n%s%s", r.code, r.stdout, r.stderr)
			}
			if got := inService(t, l); len(got) != 1 {
				t.Errorf("in service: %v, want the node again", got)
			}
		})
	}
}

func TestShutdownEndsAServer(t *testing.T) {
	t.Parallel()
	l := startLab(t, lab.Options{Nodes: 2, Enrollment: lab.Issuer})
	name := l.NodeNames()[0]
	if r := runIn(t, l, "shutdown", name); r.code != 0 {
		t.Fatalf("got exit code %d\n%s", r.code, r.stderr)
	}
	await(t, "the end of the server", func() bool { return !l.Running(name) })
	if !l.Running(l.NodeNames()[1]) {
		t.Error("the other server ended too")
	}
}

func TestPauseIsSeenByARunUnderWay(t *testing.T) {
	t.Parallel()
	l := startLab(t, lab.Options{Nodes: 1, Enrollment: lab.Issuer})
	name := l.NodeNames()[0]
	release, _ := heldHelper(t, l, nil)
	cmd, stdout, stderr := provisionCommand(t, l, "once")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	awaitAction(t, l, name, "rpcutil#inventory")
	if r := runIn(t, l, "pause", "--reason", "change freeze"); r.code != 0 {
		t.Fatalf("pause: got exit code %d\n%s", r.code, r.stderr)
	}
	release()
	r := ended(t, cmd.Wait(), stdout, stderr)
	if !strings.Contains(r.stdout, "paused") || slices.Contains(asked(t, l, name), "choria_provision#configure") {
		t.Errorf("got exit code %d, calls %v\n%s%s\nwant nothing after the pause", r.code, asked(t, l, name), r.stdout, r.stderr)
	}
	if r := runIn(t, l, "once"); r.code != 4 || !strings.Contains(r.stderr, "change freeze") {
		t.Errorf("while paused: got exit code %d, want 4 and the reason\n%s", r.code, r.stderr)
	}
	if r := runIn(t, l, "resume"); r.code != 0 {
		t.Errorf("resume: got exit code %d", r.code)
	}
	if r := runIn(t, l, "once"); r.code != 0 {
		t.Errorf("after resume: got exit code %d\n%s", r.code, r.stderr)
	}
}

func TestASignalEndsConnectingAndASecondOneEverything(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { silent.Close() })
	l := startLab(t, lab.Options{Nodes: 1, Enrollment: lab.Insecure})

	release, _ := heldHelper(t, l, map[string]any{"connect_timeout": "1m"})
	defer release()
	if err := l.SetChoria(map[string]string{"plugin.choria.middleware_hosts": "nats://" + silent.Addr().String()}); err != nil {
		t.Fatal(err)
	}
	cmd, stdout, stderr := provisionCommand(t, l, "once")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	conn, err := silent.Accept() // it connects now
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if r := ended(t, cmd.Wait(), stdout, stderr); r.code != 5 {
		t.Errorf("got exit code %d, want 5\n%s", r.code, r.stderr)
	}

	if r := runIn(t, l, "once", "--timeout", "300ms"); r.code != 5 || !strings.Contains(r.stderr, "time was up") {
		t.Errorf("--timeout while connecting: got exit code %d, want 5 and why\n%s", r.code, r.stderr)
	}
}

func TestASecondSignalEndsAtOnce(t *testing.T) {
	t.Parallel()
	l := startLab(t, lab.Options{Simulate: 1, Enrollment: lab.Insecure, Faults: []fleet.Fault{{Kind: fleet.Silent, Share: 1}}})
	if err := l.SetConfig(map[string]any{"rpc_timeout": "10m"}); err != nil { // the attempt under way would be waited for
		t.Fatal(err)
	}
	cmd, stdout, stderr := provisionCommand(t, l, "node", fleet.Name(0))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	await(t, "the attempt", func() bool {
		seen, err := l.Simulated()
		return err == nil && seen.Actions["choria_provision#jwt"] > 0
	})
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for range ticker.C { // signals that are not taken yet become one
		select {
		case err := <-exited:
			if r := ended(t, err, stdout, stderr); r.code != 128+int(syscall.SIGTERM) {
				t.Errorf("got exit code %d, want %d\n%s", r.code, 128+int(syscall.SIGTERM), r.stderr)
			}
			return
		default:
			_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended just now
		}
	}
}
