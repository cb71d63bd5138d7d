package commands

import (
	"os"
	"testing"
	"time"

	"choria-provision/config"
	"choria-provision/internal/lab"
	"choria-provision/provision"
	"choria-provision/provision/installstate"
	"choria-provision/provision/trust"

	"github.com/nats-io/nats.go"
)

// electionWrites returns how many writes the election's bucket has taken so far,
// those that have expired included.
func electionWrites(t *testing.T, l *lab.Lab) uint64 {
	t.Helper()
	stream, err := connectorIn(t, provisionerIn(t, l)).Nats().JetStream(nats.APIPrefix("choria.streams"))
	if err != nil {
		t.Fatal(err)
	}
	info, err := stream.StreamInfo("KV_CHORIA_LEADER_ELECTION")
	if err != nil {
		t.Fatal(err)
	}
	return info.State.LastSeq
}

// leaveRecord leaves the record of an installation of the lab's site in progress,
// as edit changes it.
func leaveRecord(t *testing.T, l *lab.Lab, name string, edit func(*installstate.Record)) {
	t.Helper()
	cfg, _, err := config.Load(l.ConfigFile(), config.Overrides{Getenv: os.Getenv, Keys: trust.Keys()})
	if err != nil {
		t.Fatal(err)
	}
	fingerprint, err := provision.Fingerprint(cfg)
	if err != nil {
		t.Fatal(err)
	}
	store := installstate.NewStore(l.StateDir())
	defer store.Close()
	claim, err := store.AcquireLock(name)
	if err != nil {
		t.Fatal(err)
	}
	defer claim.Release()
	record := installstate.NewRecord(name, fingerprint)
	edit(&record)
	if err := store.Save(record); err != nil {
		t.Fatal(err)
	}
}

// recordIn returns the record that the lab's state has of a node.
func recordIn(t *testing.T, l *lab.Lab, name string) installstate.Record {
	t.Helper()
	store := installstate.NewStore(l.StateDir())
	defer store.Close()
	record, err := store.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	return record
}

// A dry run beside an election neither asks to lead nor writes the key, and does
// not complete what an earlier run left: each would change what others see. The
// real run that follows does all of it.
func TestADryRunTakesNoLeadershipAndSettlesNothing(t *testing.T) {
	t.Parallel()
	l := electing(t, nil)
	const gone = "gone.example.net" // asked for its restart by a run that did not hear the answer
	leaveRecord(t, l, gone, func(r *installstate.Record) { r.RestartRequested = time.Now().UTC().Round(0) })
	before, writes := recordIn(t, l, gone), electionWrites(t, l)
	store := installstate.NewStore(l.StateDir())
	defer store.Close()
	revision := store.ElectionRevision()

	for _, args := range [][]string{{"once", "--dry-run"}, {"once", "--dry-run", "--run-helper"}, {"once", "--dry-run", "--force"}} {
		if r := runIn(t, l, args...); r.code != 0 {
			t.Errorf("%v: got exit code %d\n%s", args, r.code, r.stderr)
		}
		if after := recordIn(t, l, gone); after != before {
			t.Errorf("%v: got the record %+v, want it as it was: %+v", args, after, before)
		}
		if got := electionWrites(t, l); got != writes {
			t.Errorf("%v: got %d writes of the election's key, want %d as before", args, got, writes)
		}
		if got := store.ElectionRevision(); got != revision {
			t.Errorf("%v: got revision %d kept, want %d", args, got, revision)
		}
	}

	if r := runIn(t, l, "once"); r.code != 0 {
		t.Errorf("a real run: got exit code %d\n%s", r.code, r.stderr)
	}
	if after := recordIn(t, l, gone); after.Phase != installstate.Complete || !after.RestartRequested.IsZero() {
		t.Errorf("got %+v after a real run, want complete", after)
	}
	if got := electionWrites(t, l); got <= writes {
		t.Errorf("got %d writes of the election's key after a real run, want more than %d", got, writes)
	}
}

// --force of a run and of an operator's node reach the records.
func TestForceGoesPastAHold(t *testing.T) {
	t.Parallel()
	l := startLab(t, lab.Options{Nodes: 2, Enrollment: lab.Insecure})
	names := l.NodeNames()
	if err := l.Behave("*", lab.Behaviour{Do: lab.Shutdown, Message: "too old"}); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		leaveRecord(t, l, name, func(r *installstate.Record) { r.HoldUntil = time.Now().Add(time.Hour).UTC().Round(0) })
	}
	for _, tt := range []struct {
		args []string
		name string
		want string
	}{
		{[]string{"once"}, names[0], "skipped"},
		{[]string{"node", names[1]}, names[1], "skipped"},
		{[]string{"node", names[1], "--force"}, names[1], "shutdown"},
		{[]string{"once", "--force"}, names[0], "shutdown"},
	} {
		doc, r := report(t, l, tt.args...)
		got, calls := outcomes(doc)[tt.name], asked(t, l, tt.name)
		if got.Outcome != tt.want || (got.Cause == "held") != (tt.want == "skipped") {
			t.Errorf("%v: got %+v, want %s\n%s", tt.args, got, tt.want, r.stderr)
		}
		if (len(calls) == 0) != (tt.want == "skipped") {
			t.Errorf("%v: %s was asked for %v", tt.args, tt.name, calls)
		}
	}
}
