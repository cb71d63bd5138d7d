package commands

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"choria-provision/config"
	"choria-provision/internal/fleet"
	"choria-provision/internal/lab"
	"choria-provision/output"
)

// outage is a time without a broker in the middle of a run.
type outage struct {
	nodes, after int // it begins when so many nodes were asked to restart
	lasts        time.Duration
	keys         map[string]any
}

// happens runs once over simulated nodes while the broker goes away and comes
// back, and returns what came of it.
func (o outage) happens(t *testing.T) (r ran, report fleet.Report, doc output.Document) {
	t.Helper()
	l := startLab(t, lab.Options{Enrollment: lab.Issuer, Simulate: o.nodes, PerConnection: 20})
	if err := l.SetConfig(o.keys); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd, stdout, stderr := commandUntil(ctx, l, "once", "--output", "json")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	await(t, "the middle of the run", func() bool {
		report, err := l.Simulated()
		return err == nil && report.Actions["choria_provision#restart"] >= o.after
	})
	start, err := l.StopBroker()
	if err != nil {
		t.Fatal(err)
	}
	<-time.After(o.lasts)
	if err := start(t.Context()); err != nil {
		t.Fatal(err)
	}
	err = <-exited
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		err = nil
		r.code = exit.ExitCode()
	}
	if err != nil {
		t.Fatal(err)
	}
	r.stdout, r.stderr = stdout.String(), stderr.String()
	if report, err = l.Simulated(); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(r.stdout), &doc); err != nil {
		t.Fatalf("stdout is no document: %v\n%s\nstderr: %s", err, r.stdout, r.stderr)
	}
	return r, report, doc
}

// hold wants all nodes in service, or exit code 1 with the rest untouched; in no
// case a node that was configured and not restarted, or one that failed.
func (o outage) hold(t *testing.T, r ran, report fleet.Report, doc output.Document) {
	t.Helper()
	t.Logf("%s after %d of %d: exit code %d, %d found, %d in service; %s", o.lasts, o.after, o.nodes, r.code, len(doc.Nodes)+doc.Totals.Unhandled, report.InService(), doc.Run.Error)
	for _, group := range report.Groups {
		// a node whose reply was lost may have been configured twice
		if group.Untouched+group.Restarted != o.nodes {
			t.Errorf("got %+v, want every node either restarted with its configuration or untouched: %v", group, report.Problems)
		}
	}
	provisioned, others := 0, map[string]int{}
	for _, node := range doc.Nodes {
		if node.Outcome == "provisioned" {
			provisioned++
		} else {
			others[node.Outcome+" at "+node.Step+": "+node.Cause]++
		}
		if node.Outcome == "failed" {
			t.Errorf("got %s failed at %s: %s", node.Identity, node.Step, node.Error)
		}
	}
	if got := report.InService(); got != provisioned {
		t.Errorf("got %d nodes called provisioned and %d in service", provisioned, got)
	}
	switch r.code {
	case 0:
		if provisioned != len(doc.Nodes) {
			t.Errorf("got exit code 0 and %d of %d nodes provisioned, the others %v", provisioned, len(doc.Nodes), others)
		}
	case 1:
	default:
		t.Errorf("got exit code %d, want 0 or 1\n%s", r.code, r.stderr)
	}
}

// outages are two short ones, or with `make outages` each length of time at as many
// random moments as PROVISION_OUTAGES says.
func outages(t *testing.T) (all []outage) {
	t.Helper()
	text := os.Getenv("PROVISION_OUTAGES")
	if text == "" {
		return []outage{{nodes: 200, after: 20, lasts: time.Second}, {nodes: 200, after: 60, lasts: 5 * time.Second}}
	}
	moments, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("PROVISION_OUTAGES: %v", err)
	}
	for _, lasts := range []time.Duration{time.Second, 5 * time.Second, 30 * time.Second} {
		for range moments {
			all = append(all, outage{nodes: 800, after: rand.IntN(700), lasts: lasts})
		}
	}
	return all
}

func TestABrokerThatIsAwayForAMomentCostsNoNode(t *testing.T) {
	t.Parallel()
	for _, o := range outages(t) {
		t.Run(fmt.Sprintf("%s after %d", o.lasts, o.after), func(t *testing.T) {
			if o.nodes == 200 {
				t.Parallel()
			}
			r, report, doc := o.happens(t)
			o.hold(t, r, report, doc)
			if r.code != 0 && o.lasts < config.Default().ConnectTimeout.Duration {
				t.Errorf("got exit code %d, want 0: that is shorter than connect_timeout", r.code)
			}
		})
	}
}

func TestABrokerThatStaysAwayLeavesTheRestUntouched(t *testing.T) {
	t.Parallel()
	o := outage{nodes: 200, after: 40, lasts: 6 * time.Second, keys: map[string]any{"connect_timeout": "2s"}}
	r, report, doc := o.happens(t)
	o.hold(t, r, report, doc)
	if r.code != 1 {
		t.Errorf("got exit code %d, want 1: the broker was away for longer than connect_timeout", r.code)
	}
}

func TestWatchGoesOnAfterABrokerThatStayedAway(t *testing.T) {
	t.Parallel()
	l := startLab(t, lab.Options{Enrollment: lab.Issuer, Simulate: 60, PerConnection: 20})
	if err := l.SetConfig(map[string]any{"connect_timeout": "1s", "workers": 2}); err != nil {
		t.Fatal(err)
	}
	w := startWatch(t, l)
	restarts := func() int {
		report, err := l.Simulated()
		if err != nil {
			t.Fatal(err)
		}
		return report.Actions["choria_provision#restart"]
	}
	await(t, "the middle of the work", func() bool { return restarts() >= 10 })
	start, err := l.StopBroker()
	if err != nil {
		t.Fatal(err)
	}
	await(t, "a node that is left alone", func() bool { return strings.Contains(w.said(), "did not come back in 1s") })
	if err := start(t.Context()); err != nil {
		t.Fatal(err)
	}
	await(t, "all nodes", func() bool { return restarts() >= 60 })
	if code := w.signal(syscall.SIGTERM); code != 0 {
		t.Errorf("got exit code %d, want 0", code)
	}
	report, err := l.Simulated()
	if err != nil {
		t.Fatal(err)
	}
	if report.InService() != 60 || strings.Contains(w.said(), " failed at ") {
		t.Errorf("got %d of 60 nodes in service\n%s", report.InService(), w.said())
	}
}
