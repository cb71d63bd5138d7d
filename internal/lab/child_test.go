package lab

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"
)

// childVariable makes the test binary do other work than testing: one of the
// following.
const (
	childVariable = "LAB_TEST_CHILD"

	childProvision   = "provision"   // nodes, as an independent provisioner
	childReprovision = "reprovision" // nodes, as an operator in production
	childElect       = "elect"       // campaign for leadership as a provisioner
	childLab         = "lab"         // start a lab in a directory, print process ids, wait
)

// labVariable names the directory of the lab to work in.
const labVariable = "LAB_TEST_DIR"

// provisionNodes provisions nodes with an independent provisioner, made of
// go-choria's generated clients.
func provisionNodes(t *testing.T, l *Lab, nodes ...string) {
	t.Helper()
	if out, err := runChild(t, l, childProvision, nodes...); err != nil {
		t.Fatalf("provisioning: %v\n%s", err, out)
	}
}

// runChild does work in a process of its own: security is on or off for a
// whole process.
func runChild(t *testing.T, l *Lab, work string, args ...string) (string, error) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, args...)
	// go-choria's client races with itself: not ours to find here
	cmd.Env = append(l.Env(), childVariable+"="+work, labVariable+"="+l.Dir(), "GORACE=exitcode=0")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func runTestChild(work string, args []string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if work == childLab {
		return runLabUntilKilled(ctx, args[0])
	}
	p, err := newPeer(os.Getenv(labVariable))
	if err != nil {
		return err
	}
	switch work {
	case childProvision:
		return p.provisionAll(ctx, args)
	case childReprovision:
		return p.reprovision(ctx, args)
	case childElect:
		return p.elect(ctx)
	}
	return fmt.Errorf("unknown work %q", work)
}

func runLabUntilKilled(ctx context.Context, dir string) error {
	l, err := Start(ctx, Options{Nodes: 2, Enrollment: Issuer, Dir: dir})
	if err != nil {
		return err
	}
	for _, pid := range l.Pids() {
		fmt.Print(pid, " ")
	}
	fmt.Println()
	<-ctx.Done()
	return l.Close()
}
