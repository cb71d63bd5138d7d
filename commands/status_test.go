package commands

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"choria-provision/internal/fake"
	"choria-provision/output"
	"choria-provision/provision"
	"choria-provision/provision/installstate"

	"github.com/google/go-cmp/cmp"
)

// busyState makes a state directory with a node in every state; the last
// run lasted from `started` for a minute and now is two minutes after.
func busyState(t *testing.T) (store *installstate.Store, now time.Time) {
	t.Helper()
	store = recorded(t, "interrupted", "deferred", "failing", "stopped", "resetting", "done", "held", "mended", "working", "restarting", "shutdown")
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	complete := func(name string, hold time.Duration) {
		record, err := store.Load(name)
		check(err)
		record.HoldUntil = time.Now().Add(hold)
		check(store.MarkComplete(record))
	}
	restarting, err := store.Load("restarting")
	check(err)
	restarting.RestartRequested = time.Now()
	check(store.Save(restarting))
	ended, err := store.Load("shutdown")
	check(err)
	ended.ShutDown = time.Now()
	check(store.Save(ended))
	started := time.Now()
	check(store.BeginReset("resetting"))
	complete("done", time.Second)
	check(fake.PlantRecord(store.Dir(), "broken", []byte("{")))

	last := output.Document{
		SchemaVersion: output.SchemaVersion,
		Run:           output.Run{ID: "r1", Site: "lab", Started: started, Duration: 60, ExitCode: exitNodes},
		Nodes: []output.Node{
			{Identity: "deferred", Outcome: string(provision.Deferred), Step: "helper", Message: "not before noon"},
			{Identity: "failing", Outcome: string(provision.Failed), Step: "configure", Error: "no answer", Hint: "look at it"},
			{Identity: "never", Outcome: string(provision.Failed), Step: "inventory", Error: "no answer", Hint: "look at it"},
			{Identity: "stopped", Outcome: string(provision.Failed), Step: "csr", Error: "the run was stopped", Cause: causeStopped},
			{Identity: "theirs", Outcome: string(provision.Skipped), Cause: causeOwned, Error: "another installation"},
			{Identity: "mended", Outcome: string(provision.Failed), Step: "csr", Error: "no answer"},
			{Identity: "done", Outcome: string(provision.Provisioned)},
		},
		Totals: output.Totals{Nodes: 7, Outcomes: map[string]int{"provisioned": 1, "failed": 4, "deferred": 1, "skipped": 1}},
	}
	packed, err := last.Pack()
	check(err)
	check(store.SaveLastReport(packed))
	time.Sleep(2 * time.Minute)
	complete("mended", time.Second)
	complete("held", 2*time.Minute)
	lock, err := store.AcquireLock("working")
	check(err)
	t.Cleanup(lock.Release)
	run, err := store.AcquireRunLock()
	check(err)
	t.Cleanup(run.Release)
	time.Sleep(time.Minute)
	return store, time.Now()
}

func TestStatusTellsWhatStandsBetweenANodeAndBeingDone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, now := busyState(t)
		doc, err := gatherStatus(store, now)
		if err != nil {
			t.Fatal(err)
		}
		got := make(map[string]nodeState)
		for _, node := range doc.Nodes {
			got[node.Identity] = node.State
			if asked := strings.Contains(node.Advice, "sees whether it left"); asked != (node.Identity == "restarting") {
				t.Errorf("%s: got advice %q", node.Identity, node.Advice)
			}
		}
		want := map[string]nodeState{
			"interrupted": stateInterrupted, "restarting": stateInterrupted, "stopped": stateInterrupted, "deferred": stateWaiting, "failing": stateFailing,
			"never": stateFailing, "theirs": stateRefused, "resetting": stateResetting, "held": stateHeld,
			"working": stateWorking, "broken": stateUnusable, "shutdown": stateShutDown,
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("states (-want +got):\n%s", diff)
		}
		if want := (recordCounts{Installing: 7, Complete: 3, Resetting: 1, Unusable: 1}); doc.Records != want {
			t.Errorf("got records %+v, want %+v", doc.Records, want)
		}
		if doc.Running == nil || doc.Running.PID != os.Getpid() || doc.LastRun == nil || doc.LastRun.ID != "r1" {
			t.Errorf("got running %+v, last run %+v, want us and r1", doc.Running, doc.LastRun)
		}
	})
}

func TestStatusText(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	doc := statusDocument{
		StateDir: "/state", Now: now,
		Running: &runningNow{PID: 7, Started: now.Add(-90 * time.Second)},
		Records: recordCounts{Complete: 12, Resetting: 1},
		Nodes: []nodeStatus{
			{Identity: "a", State: stateFailing, Since: now.Add(-26 * time.Hour), Step: "csr", Why: "no answer", Advice: "look at it"},
			{Identity: "b", State: stateFailing, Since: now.Add(-time.Hour), Step: "csr", Why: "no answer", Advice: "look at it"},
			{Identity: "c", State: stateResetting, Since: now, Advice: "`provision reset c` finishes it"},
			{Identity: "d", State: stateHeld, Since: now.Add(-15 * time.Second), HeldUntil: now.Add(45 * time.Second)},
			{Identity: "e", State: stateWorking, Since: now.Add(-5 * time.Second), Holder: &runningNow{PID: 8}},
		},
		Problems: []string{"the report cannot be read"},
	}
	var text bytes.Buffer
	page := output.NewPage(&text, output.PageOptions{Color: "never", Width: 100})
	showStatus(page, doc)
	got := strings.Replace(text.String(), now.Add(-90*time.Second).Local().Format(time.DateTime), "LOCAL TIME", 1)
	want := `warning: the report cannot be read
last run  none is recorded
now       a run is at work: process 7, started LOCAL TIME (1m30s ago)
paused    no
records   12 complete, 1 resetting
state     /state

resetting: 1 node
  c (just now)
    ` + "`provision reset c` finishes it" + `

failing: 2 nodes
  a (1d2h ago): csr: no answer
  b (1h0m ago): csr: no answer
    look at it

held: 1 node
  d (15s ago, held for another 45s)

at work: 1 node
  e (5.0s ago, process 8)
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("text (-want +got):\n%s", diff)
	}
}

func TestStatusOfManyNodesStaysShort(t *testing.T) {
	t.Parallel()
	doc := statusDocument{}
	for range 500 {
		doc.Nodes = append(doc.Nodes, nodeStatus{Identity: "n", State: stateFailing, Advice: "look at it"})
	}
	var text bytes.Buffer
	showStatus(output.NewPage(&text, output.PageOptions{Color: "never"}), doc)
	if lines := strings.Count(text.String(), "\n"); lines > 40 || !strings.Contains(text.String(), "and 480 more") {
		t.Errorf("got %d lines, want few that say how many more:\n%s", lines, &text)
	}
}
