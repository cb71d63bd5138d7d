package installstate

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

func acquire(t *testing.T, take func(string) (*Claim, error)) *Claim {
	t.Helper()
	claim, err := take(identity)
	if err != nil {
		t.Fatal(err)
	}
	return claim
}

func TestClaimIsHeldByOneAtATime(t *testing.T) {
	t.Parallel()
	s := openStore(t)
	claim := acquire(t, s.AcquireLock)
	other := NewStore(s.Dir())
	defer other.Close()
	for name, s := range map[string]*Store{"the same store": s, "another store": other} {
		_, err := s.AcquireLock(identity)
		var held *LockHeld
		if !errors.As(err, &held) || !errors.Is(err, ErrLockHeld) {
			t.Fatalf("%s: got %v, want *LockHeld", name, err)
		}
		if held.Holder.PID != os.Getpid() || held.Holder.Since.IsZero() || !strings.Contains(err.Error(), fmt.Sprintf("process %d,", os.Getpid())) {
			t.Errorf("%s: got %+v, %q, want the process and since when", name, held.Holder, err)
		}
	}
	if free, err := s.AcquireLock("another"); err != nil {
		t.Errorf("got %v for another node, want a claim", err)
	} else {
		free.Release()
	}
	claim.Release()
	second := acquire(t, other.AcquireLock)
	claim.Release() // must not free another's claim
	if _, err := s.AcquireLock(identity); !errors.Is(err, ErrLockHeld) {
		t.Errorf("got %v, want ErrLockHeld", err)
	}
	second.Release()
	if left, err := s.engine.read(identity); err != nil || left.revision != 0 {
		t.Errorf("got %+v, %v, want no trace of a node without record", left, err)
	}
}

func TestOneOfTwentyProcessesGetsTheClaim(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "state") // they also race to create it
	var children []*child
	for range 20 {
		children = append(children, startChild(t, "hold", dir))
	}
	var winners []*child
	var refusals []string
	for _, c := range children {
		if line := c.line(); line == "held" {
			winners = append(winners, c)
		} else {
			refusals = append(refusals, line)
		}
	}
	if len(winners) != 1 {
		t.Fatalf("got %d holders, want 1; the others: %q", len(winners), refusals)
	}
	for _, refusal := range refusals {
		if want := fmt.Sprintf("process %d,", winners[0].Process.Pid); !strings.Contains(refusal, want) {
			t.Errorf("got %q, want it to name %s", refusal, want)
		}
	}
	if left, err := filepath.Glob(filepath.Join(dir, ".new-state-*")); err != nil || len(left) != 0 {
		t.Errorf("got %v, %v left over, want nothing", left, err)
	}
}

// A child that inherited the session's lock would keep the claim alive after its
// parent was killed.
func TestKilledHolderFreesTheClaimThoughItsChildLives(t *testing.T) {
	t.Parallel()
	s := openStore(t)
	holder := startChild(t, "hold", s.Dir(), "offspring")
	var pid int
	if _, err := fmt.Sscanf(holder.line(), "offspring %d", &pid); err != nil {
		t.Fatal(err)
	}
	if line := holder.line(); line != "held" {
		t.Fatalf("got %q, want held", line)
	}
	if _, err := s.AcquireLock(identity); !errors.Is(err, ErrLockHeld) {
		t.Fatalf("got %v, want ErrLockHeld", err)
	}
	holder.kill(t)
	if entries, err := s.List(); err != nil || len(entries) != 0 {
		t.Errorf("got %+v, %v, want a dead process's claim not shown", entries, err)
	}
	claim, err := s.AcquireLock(identity)
	if err != nil {
		t.Fatalf("got %v, want the claim", err)
	}
	claim.Release()
	if err := unix.Kill(pid, 0); err != nil {
		t.Errorf("got %v, want the holder's child still there", err)
	}
}

func TestARunRemovesWhatKilledProcessesLeft(t *testing.T) {
	t.Parallel()
	s := openStore(t)
	killed := startChild(t, "hold", s.Dir())
	if line := killed.line(); line != "held" {
		t.Fatalf("got %q, want held", line)
	}
	killed.kill(t)
	living := acquire(t, func(string) (*Claim, error) { return s.AcquireLock("living") })
	defer living.Release()
	run, err := s.AcquireRunLock()
	if err != nil {
		t.Fatal(err)
	}
	run.Release()
	if left, err := s.engine.read(identity); err != nil || left.revision != 0 {
		t.Errorf("got %+v, %v, want the row removed", left, err)
	}
	if left, err := s.engine.read("living"); err != nil || left.session == "" {
		t.Errorf("got %+v, %v, want a living claim kept", left, err)
	}
	if sessions, err := os.ReadDir(filepath.Join(s.Dir(), sessionsDir)); err != nil || len(sessions) != 1 {
		t.Errorf("got %v, %v, want this process's session alone", sessions, err)
	}
}

// Claims by several stores at once never overlap, and rows that vanish with the
// claim let no two in.
func TestClaimsOfOneNodeNeverOverlap(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var inside sync.Mutex
	var takers sync.WaitGroup
	for range 4 {
		s := NewStore(dir)
		defer s.Close()
		for range 2 {
			takers.Go(func() {
				for taken := 0; taken < 25; {
					claim, err := s.AcquireLock(identity)
					if errors.Is(err, ErrLockHeld) {
						continue
					}
					if err != nil {
						t.Error(err)
						return
					}
					if !inside.TryLock() {
						t.Error("two hold the claim")
					} else {
						for range 100 { // time for others to come in, were they let
							runtime.Gosched()
						}
						inside.Unlock()
					}
					taken++
					claim.Release()
				}
			})
		}
	}
	takers.Wait()
}

func TestClaimThatWasTakenOverIsLost(t *testing.T) {
	t.Parallel()
	s := openStore(t)
	claim := acquire(t, s.AcquireLock)
	defer claim.Release()
	record := NewRecord(identity, fingerprint)
	save(t, s, record)
	stored, err := s.engine.read(identity)
	if err != nil {
		t.Fatal(err)
	}
	stored.session = "another"
	if _, err := s.engine.write(identity, stored, true); err != nil {
		t.Fatal(err)
	}
	if err := s.MarkComplete(record); !errors.Is(err, ErrClaimLost) {
		t.Errorf("got %v, want ErrClaimLost", err)
	}
	if after, err := s.engine.read(identity); err != nil || after.session != "another" {
		t.Errorf("got %+v, %v, want the other's row untouched", after, err)
	}
}

func TestRunLockTellsWhoRunsAndSinceWhen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := NewStore(t.TempDir())
		defer s.Close()
		start := time.Now()
		lock, err := s.AcquireRunLock()
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		holder, running, err := s.RunHolder()
		if err != nil || !running || holder.PID != os.Getpid() || !holder.Since.Equal(start) {
			t.Errorf("got %+v, %v, %v, want this process since %s", holder, running, err, start)
		}
		if _, err := s.AcquireRunLock(); !errors.Is(err, ErrLockHeld) || !strings.Contains(err.Error(), start.UTC().Format(time.RFC3339)) {
			t.Errorf("got %v, want ErrLockHeld and the start", err)
		}
		lock.Release()
		lock.Release() // more than once does nothing
		if _, running, err := s.RunHolder(); running || err != nil {
			t.Errorf("got %v, %v, want no run", running, err)
		}
	})
}

// Reading takes the lock for an instant, shared; it must never be taken for a
// holder.
func TestReadersOfTheRunLockNeverGetInTheWay(t *testing.T) {
	t.Parallel()
	s := openStore(t)
	done := make(chan struct{})
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					_, _, _ = s.RunHolder()
				}
			}
		})
	}
	for range 200 {
		lock, err := s.AcquireRunLock()
		if err != nil {
			t.Errorf("got %v, want the lock", err)
			break
		}
		lock.Release()
	}
	close(done)
	readers.Wait()
}

func TestMutationLock(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		phase Phase
		want  []error
	}{
		{"no record", "", nil},
		{"complete", Complete, nil},
		{"in progress", Installing, []error{ErrInstallationInProgress}},
		{"in mid-reset", Resetting, []error{ErrInstallationInProgress, ErrResetting}},
		{"unusable", "bad", []error{ErrInstallationInProgress, ErrUnusable}},
		{"shut down", "shut down", nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := openStore(t)
			switch test.phase {
			case "bad":
				plant(t, s, []byte("{"))
			case "shut down":
				record := NewRecord(identity, fingerprint)
				record.ShutDown = time.Now().UTC()
				save(t, s, record)
			default:
				inPhase(t, s, test.phase)
			}
			claim, err := s.AcquireMutationLock(identity)
			if err == nil {
				defer claim.Release()
			}
			if (err == nil) != (test.want == nil) || errors.Is(err, ErrLockHeld) {
				t.Fatalf("got %v, want %v", err, test.want)
			}
			for _, want := range test.want {
				if !errors.Is(err, want) {
					t.Errorf("got %v, want %v", err, want)
				}
			}
			if err != nil { // a refusal keeps no claim
				acquire(t, s.AcquireLock).Release()
			}
		})
	}
	s := openStore(t)
	defer acquire(t, s.AcquireLock).Release()
	if _, err := s.AcquireMutationLock(identity); !errors.Is(err, ErrLockHeld) || errors.Is(err, ErrInstallationInProgress) {
		t.Errorf("got %v, want ErrLockHeld alone", err)
	}
}
